// AdamW as torch::optim::AdamW computes it, in one pass over all parameters. Options and state are torch's own, so
// archives can be exchanged.
#pragma once

#include <torch/optim/adamw.h>

#include "saddle/nn/export.hpp"

namespace saddle::nn {

using AdamWOptions = torch::optim::AdamWOptions;
// Of both optimisers here: step, exp_avg and exp_avg_sq of one parameter.
using AdamState = torch::optim::AdamWParamState;

// Parameters are float32 or float64 on CPUs. Options may change between steps, also beta1.
class SADDLE_TORCH_API AdamW : public torch::optim::Optimizer {
 public:
  explicit AdamW(std::vector<torch::optim::OptimizerParamGroup> groups, AdamWOptions defaults = {});
  explicit AdamW(std::vector<torch::Tensor> parameters, AdamWOptions defaults = {});

  torch::Tensor step(LossClosure closure = nullptr) override;
  // As in torch, loading restores the state; options stay those of the constructor.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;
};

}  // namespace saddle::nn
