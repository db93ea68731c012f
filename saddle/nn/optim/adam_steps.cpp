#include "saddle/nn/optim/adam_steps.hpp"

#include <fmt/format.h>

#include "saddle/base/error.hpp"
#include "saddle/nn/tensor.hpp"

namespace saddle::nn {

using kernels::dense::AdamRule;
using kernels::dense::AdamSlice;

void check_adam_options(const char* name, double lr, std::tuple<double, double> betas, double eps,
                        double weight_decay) {
  const auto [beta1, beta2] = betas;
  const auto reject = [&](const char* what, double found, const char* wanted) {
    throw InvalidArgument(fmt::format("[{}] found {} {}: it must be {}", name, what, found, wanted));
  };
  if (!(lr >= 0)) reject("learning rate", lr, "at least 0");
  if (!(eps >= 0)) reject("eps", eps, "at least 0");
  if (!(beta1 >= 0 && beta1 < 1)) reject("beta1", beta1, "in [0,1)");
  if (!(beta2 >= 0 && beta2 < 1)) reject("beta2", beta2, "in [0,1)");
  if (!(weight_decay >= 0)) reject("weight decay", weight_decay, "at least 0");
}

template <class T>
void AdamSteps::slice(const AdamRule& rule, const torch::Tensor& p, const torch::Tensor& gradient,
                      const AdamState& state, std::vector<AdamSlice<T>>& slices) {
  slices.push_back({rule, p.data_ptr<T>(), gradient.data_ptr<T>(), state.exp_avg().data_ptr<T>(),
                    state.exp_avg_sq().data_ptr<T>(), p.numel()});
}

void AdamSteps::add(const torch::Tensor& p, AdamState& state, const std::function<AdamRule(double step)>& rule) {
  const torch::Tensor gradient = p.grad();
  if (!p.device().is_cpu() || gradient.is_sparse() ||
      (p.scalar_type() != torch::kFloat32 && p.scalar_type() != torch::kFloat64))
    throw InvalidArgument(fmt::format(
        "[{}] found a parameter of type {} on {} with a {} gradient: float32 and float64 "
        "on a CPU with dense gradients can be optimised",
        name_, c10::toString(p.scalar_type()), p.device().str(), gradient.is_sparse() ? "sparse" : "dense"));
  torch::Tensor contiguous = p.detach();
  if (!p.is_contiguous()) {
    contiguous = contiguous.contiguous();
    copied_.push_back({p.detach(), contiguous});
  }
  if (!state.exp_avg().defined()) {
    state.step(0);
    state.exp_avg(torch::zeros(p.sizes(), p.options().requires_grad(false)));
    state.exp_avg_sq(torch::zeros_like(state.exp_avg()));
  }
  state.exp_avg(state.exp_avg().contiguous());
  state.exp_avg_sq(state.exp_avg_sq().contiguous());
  state.step(state.step() + 1);
  gradients_.push_back(gradient.to(p.scalar_type()).contiguous());
  parameters_.push_back(p);
  const AdamRule now = rule(static_cast<double>(state.step()));
  if (p.scalar_type() == torch::kFloat32) {
    slice(now, contiguous, gradients_.back(), state, floats_);
  } else {
    slice(now, contiguous, gradients_.back(), state, doubles_);
  }
}

void AdamSteps::run() {
  follow_torch_threads();
  kernels::dense::adam_step<float>(floats_);
  kernels::dense::adam_step<double>(doubles_);
  for (const Copied& c : copied_) torch::Tensor(c.parameter).copy_(c.contiguous);
  for (const torch::Tensor& p : parameters_)
    if (!p.is_inference()) p.unsafeGetTensorImpl()->bump_version();
}

}  // namespace saddle::nn
