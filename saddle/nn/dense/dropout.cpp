#include "saddle/nn/dense/dropout.hpp"

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include "saddle/base/error.hpp"
#include "saddle/kernels/dense/sweeps.hpp"
#include "saddle/nn/dense/rows.hpp"
#include "saddle/nn/plain.hpp"
#include "saddle/nn/tensor.hpp"
#include "saddle/primal/dropout.hpp"

namespace saddle::nn {

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

template <class T>
void sweep(const primal::Dropout& drop, const Tensor& x, const Tensor& residual, const Tensor& y) {
  const auto data = [](const Tensor& t) { return t.defined() ? static_cast<T*>(t.data_ptr()) : nullptr; };
  kernels::dense::dropout<T>({data(x), data(residual), data(y), primal::dropout_seed(drop),
                              primal::dropout_threshold(drop), primal::dropout_factor(drop)},
                             x.numel());
}

Tensor dropped(const primal::Dropout& drop, const Tensor& x, const Tensor& residual) {
  follow_torch_threads();
  const Tensor from = x.contiguous(), added = residual.defined() ? residual.contiguous() : residual;
  Tensor y = torch::empty(x.sizes(), x.options());
  if (x.scalar_type() == torch::kFloat32) {
    sweep<float>(drop, from, added, y);
  } else {
    sweep<BFloat16>(drop, from, added, y);
  }
  return y;
}

class Drop : public torch::autograd::Function<Drop> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const c10::optional<Tensor>& residual, double p,
                        int64_t seed) {
    context->saved_data["p"] = p;
    context->saved_data["seed"] = seed;
    context->saved_data["residual"] = residual.has_value();
    return dropped({p, static_cast<std::uint64_t>(seed), 0}, x, residual.value_or(Tensor()));
  }

  // Linear, so its own gradient of any order.
  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const double p = context->saved_data["p"].toDouble();
    const int64_t seed = context->saved_data["seed"].toInt();
    const Tensor dx = Drop::apply(gradients[0], c10::nullopt, p, seed);
    return {dx, context->saved_data["residual"].toBool() ? gradients[0] : Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

std::uint64_t next_seed() {
  return static_cast<std::uint64_t>(
      torch::randint(std::numeric_limits<int64_t>::max(), {1}, torch::kInt64).item<int64_t>());
}

Tensor dropout(const Tensor& x, double p, const Tensor& residual) {
  if (!(p >= 0 && p <= 1)) throw InvalidArgument(fmt::format("[dropout] p is {}: it must lie in [0, 1]", p));
  if (residual.defined() && residual.sizes() != x.sizes())
    throw InvalidArgument("[dropout] the residual must have the shape of x");
  if (p == 0) return residual.defined() ? x + residual : x;
  const bool served = x.device().is_cpu() &&
                      (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kBFloat16) &&
                      (!residual.defined() || residual.scalar_type() == x.scalar_type());
  if (served && !PlainOperations::are_wanted())
    return Drop::apply(x, present(residual), p, static_cast<int64_t>(next_seed()));
  const Tensor y = at::dropout(x, p, true);
  return residual.defined() ? y + residual : y;
}

}  // namespace saddle::nn
