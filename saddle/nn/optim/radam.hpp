// RAdam with a plain momentum step while the variance is not known well enough (r_t < 5), epsilon beside the
// uncorrected root, decoupled weight decay.
#pragma once

#include "saddle/nn/optim/adamw.hpp"

namespace saddle::nn {

struct SADDLE_TORCH_API RAdamOptions : public torch::optim::OptimizerCloneableOptions<RAdamOptions> {
  explicit RAdamOptions(double lr = 1e-3);
  ~RAdamOptions() override;

  using Betas = std::tuple<double, double>;
  TORCH_ARG(double, lr) = 1e-3;
  TORCH_ARG(Betas, betas) = std::make_tuple(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 0;

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override;
  void set_lr(double lr) override;
};

// Parameters are float32 or float64 on CPUs.
class SADDLE_TORCH_API RAdam : public torch::optim::Optimizer {
 public:
  explicit RAdam(std::vector<torch::optim::OptimizerParamGroup> groups, RAdamOptions defaults = RAdamOptions());
  explicit RAdam(std::vector<torch::Tensor> parameters, RAdamOptions defaults = RAdamOptions());

  torch::Tensor step(LossClosure closure = nullptr) override;
  // As in torch, loading restores the state; options stay those of the constructor.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;
};

}  // namespace saddle::nn
