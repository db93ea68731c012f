// Gradients summed over the workers while the backward pass still runs.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "saddle/train/group.hpp"

namespace saddle::train {

// Parameters are put into buckets in the reverse of their order, which is about the order in which gradients become
// known; a bucket is sent as soon as its last one is. All workers have the same buckets and send them in the same
// order.
class Buckets {
 public:
  Buckets(const torch::nn::Module& module, Group& group, Index bytes = Index{1} << 22);
  ~Buckets();
  Buckets(const Buckets&) = delete;
  Buckets& operator=(const Buckets&) = delete;

  // Before the backward pass whose end makes the gradients complete.
  void start();
  // Behind it: every gradient is the sum over the workers, also that of a parameter which had none here.
  void finish();

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;  // torch itself holds them weakly
};

}  // namespace saddle::train
