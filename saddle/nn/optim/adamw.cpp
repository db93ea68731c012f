#include "saddle/nn/optim/adamw.hpp"

#include <torch/optim/serialize.h>

#include <cmath>

#include "saddle/base/error.hpp"
#include "saddle/nn/optim/adam_steps.hpp"

namespace saddle::nn {

using kernels::dense::AdamRule;

namespace {

void check(const AdamWOptions& options) {
  check_adam_options("AdamW", options.lr(), options.betas(), options.eps(), options.weight_decay());
  if (options.amsgrad()) throw InvalidArgument("[AdamW] found amsgrad: only torch::optim::AdamW has it");
}

}  // namespace

AdamW::AdamW(std::vector<torch::optim::OptimizerParamGroup> groups, AdamWOptions defaults)
    : Optimizer(std::move(groups), std::make_unique<AdamWOptions>(defaults)) {
  check(defaults);
}

AdamW::AdamW(std::vector<torch::Tensor> parameters, AdamWOptions defaults)
    : AdamW(std::vector<torch::optim::OptimizerParamGroup>{{std::move(parameters)}}, defaults) {}

torch::Tensor AdamW::step(LossClosure closure) {
  torch::Tensor loss;
  if (closure) {
    const at::AutoGradMode enable(true);
    loss = closure();
  }
  const torch::NoGradGuard no_grad;
  AdamSteps steps("AdamW");
  for (auto& group : param_groups_) {
    const auto& options = static_cast<const AdamWOptions&>(group.options());
    check(options);
    const auto [beta1, beta2] = options.betas();
    const auto rule = [&, b1 = beta1, b2 = beta2](double t) {
      return AdamRule{.beta1 = b1,
                      .beta2 = b2,
                      .eps = options.eps(),
                      .decay = 1 - options.lr() * options.weight_decay(),
                      .step = options.lr() / (1 - std::pow(b1, t)),
                      .scale = 1 / std::sqrt(1 - std::pow(b2, t))};
    };
    for (const torch::Tensor& p : group.params())
      if (p.grad().defined()) steps.add(p, adam_state(state_, p), rule);
  }
  steps.run();
  return loss;
}

void AdamW::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<AdamState, AdamWOptions>(archive, *this);
}

void AdamW::load(torch::serialize::InputArchive& archive) {
  torch::optim::serialize<AdamState, AdamWOptions>(archive, *this);
}

}  // namespace saddle::nn
