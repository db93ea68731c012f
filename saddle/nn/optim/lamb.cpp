#include "saddle/nn/optim/lamb.hpp"

#include <fmt/format.h>
#include <torch/optim/serialize.h>

#include <cmath>

#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/nn/optim/adam_steps.hpp"
#include "saddle/nn/tensor.hpp"

namespace saddle::nn {

using torch::Tensor;

LambOptions::LambOptions(double lr) : lr_(lr) {}
LambOptions::~LambOptions() = default;

void LambOptions::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(betas);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(eps);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
}

void LambOptions::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(Betas, betas);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, eps);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
}

double LambOptions::get_lr() const { return lr(); }
void LambOptions::set_lr(double rate) { lr(rate); }

namespace {

constexpr double largest_norm = 10;
constexpr Index grain = 16384;

void check(const LambOptions& options) {
  check_adam_options("Lamb", options.lr(), options.betas(), options.eps(), options.weight_decay());
}

// Two passes: averages and both norms, then the weights, for which the step is computed once more instead of kept.
template <class T>
void update(T* w, const T* g, T* m, T* v, Index size, const LambOptions& options) {
  const auto [beta1, beta2] = options.betas();
  const T b1 = static_cast<T>(beta1), c1 = static_cast<T>(1 - beta1), b2 = static_cast<T>(beta2),
          c2 = static_cast<T>(1 - beta2), eps = static_cast<T>(options.eps()),
          decay = static_cast<T>(options.weight_decay());
  const auto direction = [=](T mean, T square, T weight) { return mean / (std::sqrt(square) + eps) + decay * weight; };
  const Index chunks = (size + grain - 1) / grain;
  std::vector<double> weights(static_cast<std::size_t>(chunks)), steps(static_cast<std::size_t>(chunks));
  parallel_for(size, grain, [&](Index begin, Index end) {
    double of_weights = 0, of_steps = 0;
    for (Index i = begin; i < end; ++i) {
      m[i] = b1 * m[i] + c1 * g[i];
      v[i] = b2 * v[i] + c2 * g[i] * g[i];
      const double u = static_cast<double>(direction(m[i], v[i], w[i]));
      of_weights += static_cast<double>(w[i]) * static_cast<double>(w[i]);
      of_steps += u * u;
    }
    weights[static_cast<std::size_t>(begin / grain)] = of_weights;
    steps[static_cast<std::size_t>(begin / grain)] = of_steps;
  });
  double of_weights = 0, of_steps = 0;
  for (std::size_t chunk = 0; chunk < weights.size(); ++chunk) {
    of_weights += weights[chunk];
    of_steps += steps[chunk];
  }
  const double own = std::min(std::sqrt(of_weights), largest_norm), length = std::sqrt(of_steps);
  const T rate = static_cast<T>(options.lr() * (own == 0 || length == 0 ? 1 : own / length));
  parallel_for(size, grain, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) w[i] -= rate * direction(m[i], v[i], w[i]);
  });
}

void update(const Tensor& p, AdamState& state, const LambOptions& options) {
  const Tensor given = p.grad();
  if (!p.device().is_cpu() || given.is_sparse() ||
      (p.scalar_type() != torch::kFloat32 && p.scalar_type() != torch::kFloat64))
    throw InvalidArgument(fmt::format(
        "[Lamb] found a parameter of type {} on {} with a {} gradient: float32 and float64 on a CPU with dense "
        "gradients can be optimised",
        c10::toString(p.scalar_type()), p.device().str(), given.is_sparse() ? "sparse" : "dense"));
  if (!state.exp_avg().defined()) {
    state.step(0);
    state.exp_avg(torch::zeros(p.sizes(), p.options().requires_grad(false)));
    state.exp_avg_sq(torch::zeros_like(state.exp_avg()));
  }
  state.step(state.step() + 1);
  const Tensor w = p.detach().contiguous(), g = given.to(p.scalar_type()).contiguous();
  const auto run = [&]<class T>(T*) {
    update(w.data_ptr<T>(), g.data_ptr<T>(), state.exp_avg().data_ptr<T>(), state.exp_avg_sq().data_ptr<T>(), p.numel(),
           options);
  };
  if (p.scalar_type() == torch::kFloat32) {
    run(static_cast<float*>(nullptr));
  } else {
    run(static_cast<double*>(nullptr));
  }
  if (!p.is_contiguous()) p.detach().copy_(w);
  if (!p.is_inference()) p.unsafeGetTensorImpl()->bump_version();
}

}  // namespace

Lamb::Lamb(std::vector<torch::optim::OptimizerParamGroup> groups, LambOptions defaults)
    : Optimizer(std::move(groups), std::make_unique<LambOptions>(defaults)) {
  check(defaults);
}

Lamb::Lamb(std::vector<Tensor> parameters, LambOptions defaults)
    : Lamb(std::vector<torch::optim::OptimizerParamGroup>{{std::move(parameters)}}, defaults) {}

Tensor Lamb::step(LossClosure closure) {
  Tensor loss;
  if (closure) {
    const at::AutoGradMode enable(true);
    loss = closure();
  }
  const torch::NoGradGuard no_grad;
  follow_torch_threads();
  for (auto& group : param_groups_) {
    const auto& options = static_cast<const LambOptions&>(group.options());
    check(options);
    for (const Tensor& p : group.params())
      if (p.grad().defined()) update(p, adam_state(state_, p), options);
  }
  return loss;
}

void Lamb::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<AdamState, LambOptions>(archive, *this);
}

void Lamb::load(torch::serialize::InputArchive& archive) {
  torch::optim::serialize<AdamState, LambOptions>(archive, *this);
}

Lookahead::Lookahead(std::vector<Tensor> parameters, int64_t every, double share)
    : parameters_(std::move(parameters)), every_(every), share_(share) {
  if (every < 1) throw InvalidArgument(fmt::format("[Lookahead] looks ahead {} steps: at least 1 is needed", every));
  if (!(share >= 0 && share <= 1))
    throw InvalidArgument(fmt::format("[Lookahead] found the share {}: it must be in [0,1]", share));
  for (const Tensor& p : parameters_) slow_.push_back(p.detach().clone());
}

void Lookahead::after_step(int64_t steps) {
  if (steps % every_ != 0) return;
  const torch::NoGradGuard no_grad;
  const bool first = steps == every_;
  for (std::size_t i = 0; i < slow_.size(); ++i) {
    const Tensor weights = parameters_[i].detach();
    if (first) {
      slow_[i].copy_(weights);
      continue;
    }
    slow_[i].add_(weights - slow_[i], share_);
    weights.copy_(slow_[i]);
    if (!parameters_[i].is_inference()) parameters_[i].unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace saddle::nn
