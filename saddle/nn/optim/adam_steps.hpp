// What AdamW and RAdam share: checks, the state of parameters, one pass over all of them.
#pragma once

#include <torch/optim/optimizer.h>

#include <functional>
#include <type_traits>

#include "saddle/kernels/dense/sweeps.hpp"
#include "saddle/nn/optim/adamw.hpp"

namespace saddle::nn {

// Throws InvalidArgument that names the optimiser.
void check_adam_options(const char* name, double lr, std::tuple<double, double> betas, double eps, double weight_decay);

// The parameters of a step.
class AdamSteps {
 public:
  explicit AdamSteps(const char* name) : name_(name) {}

  // Takes in p with its gradient; a fresh state starts from zeros.
  void add(const torch::Tensor& p, AdamState& state, const std::function<kernels::dense::AdamRule(double step)>& rule);
  // Updates all, and counts a new version of each.
  void run();

 private:
  template <class T>
  void slice(const kernels::dense::AdamRule& rule, const torch::Tensor& p, const torch::Tensor& gradient,
             const AdamState& state, std::vector<kernels::dense::AdamSlice<T>>& slices);

  struct Copied {
    torch::Tensor parameter, contiguous;
  };
  const char* name_;
  std::vector<kernels::dense::AdamSlice<float>> floats_;
  std::vector<kernels::dense::AdamSlice<double>> doubles_;
  std::vector<torch::Tensor> parameters_, gradients_;  // gradients live until run()
  std::vector<Copied> copied_;
};

// The state of p in the map of an optimiser, made if there is none. Keys were strings before torch 2.
template <class Map>
AdamState& adam_state(Map& states, const torch::Tensor& p) {
  using Key = std::remove_const_t<typename Map::key_type>;
  const auto key = [&]() -> Key {
    if constexpr (std::is_same_v<Key, std::string>) {
      return c10::guts::to_string(p.unsafeGetTensorImpl());
    } else {
      return p.unsafeGetTensorImpl();
    }
  }();
  auto& state = states[key];
  if (!state) state = std::make_unique<AdamState>();
  return static_cast<AdamState&>(*state);
}

}  // namespace saddle::nn
