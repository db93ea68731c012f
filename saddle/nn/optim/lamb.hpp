// LAMB without bias correction, the norm of the weights capped at 10, one norm for each parameter; and Lookahead around
// any optimiser.
#pragma once

#include "saddle/nn/optim/adamw.hpp"

namespace saddle::nn {

struct SADDLE_TORCH_API LambOptions : public torch::optim::OptimizerCloneableOptions<LambOptions> {
  explicit LambOptions(double lr = 1e-3);
  ~LambOptions() override;

  using Betas = std::tuple<double, double>;
  TORCH_ARG(double, lr) = 1e-3;
  TORCH_ARG(Betas, betas) = std::make_tuple(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-6;
  TORCH_ARG(double, weight_decay) = 0;

 public:
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override;
  void set_lr(double lr) override;
};

// u = m / (sqrt(v) + eps) + decay w, then w -= lr min(|w|, 10) / |u| u; the quotient is 1 where one of both is 0.
// Parameters are float32 or float64 on CPUs. The bits do not depend on the number of threads.
class SADDLE_TORCH_API Lamb : public torch::optim::Optimizer {
 public:
  explicit Lamb(std::vector<torch::optim::OptimizerParamGroup> groups, LambOptions defaults = LambOptions());
  explicit Lamb(std::vector<torch::Tensor> parameters, LambOptions defaults = LambOptions());

  torch::Tensor step(LossClosure closure = nullptr) override;
  // As in torch, loading restores the state; options stay those of the constructor.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;
};

// Slow weights that follow those of an optimiser: behind every so many steps slow += share (w - slow), w = slow. The
// first time the slow weights are those of that moment, so nothing changes.
class SADDLE_TORCH_API Lookahead {
 public:
  // Throws InvalidArgument for `every` below 1 or a share outside [0,1].
  Lookahead(std::vector<torch::Tensor> parameters, int64_t every = 6, double share = 0.5);

  // To be called behind each step of the optimiser; `steps` counts it.
  void after_step(int64_t steps);
  // The slow weights, in the order of the parameters; before the first time their present values.
  std::vector<torch::Tensor>& slow() { return slow_; }

 private:
  std::vector<torch::Tensor> parameters_, slow_;
  int64_t every_;
  double share_;
};

}  // namespace saddle::nn
