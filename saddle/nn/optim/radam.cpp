#include "saddle/nn/optim/radam.hpp"

#include <torch/optim/serialize.h>

#include <cmath>

#include "saddle/nn/optim/adam_steps.hpp"

namespace saddle::nn {

using kernels::dense::AdamRule;

RAdamOptions::RAdamOptions(double lr) : lr_(lr) {}
RAdamOptions::~RAdamOptions() = default;

void RAdamOptions::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(betas);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(eps);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
}

void RAdamOptions::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(Betas, betas);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, eps);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
}

double RAdamOptions::get_lr() const { return lr(); }
void RAdamOptions::set_lr(double rate) { lr(rate); }

namespace {

void check(const RAdamOptions& options) {
  check_adam_options("RAdam", options.lr(), options.betas(), options.eps(), options.weight_decay());
}

// Step t. r_t is the length of the average of squares; below 5 its variance has no useful estimate.
AdamRule rule_at(const RAdamOptions& options, double t) {
  const auto [beta1, beta2] = options.betas();
  AdamRule rule{.beta1 = beta1, .beta2 = beta2, .eps = options.eps()};
  rule.decay = 1 - options.lr() * options.weight_decay();
  rule.step = options.lr() / (1 - std::pow(beta1, t));
  const double left = std::pow(beta2, t), most = 2 / (1 - beta2) - 1, r = most - 2 * t * left / (1 - left);
  rule.adaptive = r >= 5;
  if (rule.adaptive) rule.step *= std::sqrt((1 - left) * (r - 4) / (most - 4) * (r - 2) / r * most / (most - 2));
  return rule;
}

}  // namespace

RAdam::RAdam(std::vector<torch::optim::OptimizerParamGroup> groups, RAdamOptions defaults)
    : Optimizer(std::move(groups), std::make_unique<RAdamOptions>(defaults)) {
  check(defaults);
}

RAdam::RAdam(std::vector<torch::Tensor> parameters, RAdamOptions defaults)
    : RAdam(std::vector<torch::optim::OptimizerParamGroup>{{std::move(parameters)}}, defaults) {}

torch::Tensor RAdam::step(LossClosure closure) {
  torch::Tensor loss;
  if (closure) {
    const at::AutoGradMode enable(true);
    loss = closure();
  }
  const torch::NoGradGuard no_grad;
  AdamSteps steps("RAdam");
  for (auto& group : param_groups_) {
    const auto& options = static_cast<const RAdamOptions&>(group.options());
    check(options);
    for (const torch::Tensor& p : group.params())
      if (p.grad().defined()) steps.add(p, adam_state(state_, p), [&](double t) { return rule_at(options, t); });
  }
  steps.run();
  return loss;
}

void RAdam::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<AdamState, RAdamOptions>(archive, *this);
}

void RAdam::load(torch::serialize::InputArchive& archive) {
  torch::optim::serialize<AdamState, RAdamOptions>(archive, *this);
}

}  // namespace saddle::nn
