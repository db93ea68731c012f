// The optimiser of a run, with its state as named tensors.
#pragma once

#include <torch/optim/optimizer.h>

#include <map>
#include <memory>
#include <string>

#include "saddle/nn/models/model.hpp"
#include "saddle/nn/optim/lamb.hpp"
#include "saddle/train/schedule.hpp"

namespace saddle::train {

class Optimiser {
 public:
  Optimiser(nn::Model& model, const run::TrainSettings& settings);

  void step(const Rate& rate);
  // Gradients are freed, so that the next ones are written and not added.
  void forget_gradients();
  // The norm before clipping; max_norm 0 leaves the gradients as they are.
  double clip(double max_norm);
  // Every number of the gradients to [-most,most]; 0 leaves them as they are.
  void clip_values(double most);

  // Mean and mean square of every parameter, as <name>.exp_avg and <name>.exp_avg_sq, zeros before the first step, and
  // <name>.slow with lookahead. The tensors are the optimiser's own: copying into them restores a state.
  std::map<std::string, torch::Tensor> state();
  Index steps() const { return steps_; }
  void set_steps(Index steps);

 private:
  void set(const Rate& rate);

  std::vector<std::pair<std::string, torch::Tensor>> parameters_;
  std::string rule_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::unique_ptr<nn::Lookahead> lookahead_;
  Index steps_ = 0;
};

}  // namespace saddle::train
