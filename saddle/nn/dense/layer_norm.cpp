#include "saddle/nn/dense/layer_norm.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>

#include "saddle/base/error.hpp"
#include "saddle/kernels/dense/sweeps.hpp"
#include "saddle/nn/dense/rows.hpp"
#include "saddle/nn/plain.hpp"
#include "saddle/nn/tensor.hpp"

namespace saddle::nn {

namespace {

using kernels::dense::LayerNorm;
using kernels::dense::LayerNormBackward;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

bool is_served(torch::ScalarType type) { return type == torch::kFloat32 || type == torch::kBFloat16; }

// f(X{}, Y{}) with the element types of x and y.
template <class F>
void with_types(const Tensor& x, const Tensor& y, F&& f) {
  const bool x_float = x.scalar_type() == torch::kFloat32, y_float = y.scalar_type() == torch::kFloat32;
  if (x_float && y_float) f(float{}, float{});
  if (x_float && !y_float) f(float{}, BFloat16{});
  if (!x_float && y_float) f(BFloat16{}, float{});
  if (!x_float && !y_float) f(BFloat16{}, BFloat16{});
}

class Normalise : public torch::autograd::Function<Normalise> {
 public:
  // The norm of x, and x.
  static tensor_list forward(AutogradContext* context, const Tensor& x, const c10::optional<Tensor>& given_gamma,
                             const c10::optional<Tensor>& given_beta, double eps, torch::ScalarType dtype) {
    follow_torch_threads();
    const Tensor gamma = given_gamma.value_or(Tensor()), beta = given_beta.value_or(Tensor());
    const Tensor rows = as_rows(x), g = gamma.defined() ? gamma.contiguous() : gamma,
                 b = beta.defined() ? beta.contiguous() : beta;
    const Index M = rows.size(0), C = rows.size(1);
    const Tensor y = torch::empty({M, C}, x.options().dtype(dtype));
    const Tensor statistics = torch::empty({2, M}, x.options().dtype(torch::kFloat32));
    with_types(x, y, [&]<class X, class Y>(X, Y) {
      float* const mean = statistics.data_ptr<float>();
      kernels::dense::layer_norm(
          LayerNorm<X, Y>{C, eps, rows_of<const X>(rows), floats_of(g), floats_of(b), rows_of<Y>(y), mean, mean + M},
          M);
    });
    context->save_for_backward({x, gamma, beta, statistics});
    context->saved_data["eps"] = eps;
    return {y.view(x.sizes()), x};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    follow_torch_threads();
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &gamma = saved[1], &beta = saved[2], &statistics = saved[3], &dy = gradients[0],
                 &stream = gradients[1];
    if (!dy.defined()) return {stream, Tensor(), Tensor(), Tensor(), Tensor()};
    if (at::GradMode::is_enabled()) {
      tensor_list found = with_graph(x, gamma, beta, dy, context->saved_data["eps"].toDouble());
      if (stream.defined()) found[0] = found[0] + stream;
      return found;
    }
    const Tensor added = stream.defined() ? as_rows(stream) : stream;
    const Tensor rows = as_rows(x), dy_rows = as_rows(dy), g = gamma.defined() ? gamma.contiguous() : gamma;
    const Index M = rows.size(0), C = rows.size(1);
    const Tensor dx = context->needs_input_grad(0) ? torch::empty({M, C}, x.options()) : Tensor();
    const Tensor sums = torch::empty({2, C}, statistics.options());
    with_types(x, dy, [&]<class X, class Y>(X, Y) {
      const float* const mean = statistics.data_ptr<float>();
      float* const dgamma = sums.data_ptr<float>();
      kernels::dense::layer_norm_backward(
          LayerNormBackward<X, Y>{C, rows_of<const X>(rows), rows_of<const Y>(dy_rows), floats_of(g), mean, mean + M,
                                  rows_of<X>(dx), rows_of<const X>(added)},
          M, dgamma, dgamma + C);
    });
    return {dx.defined() ? dx.view(x.sizes()) : dx, gamma.defined() ? sums[0] : Tensor(),
            beta.defined() ? sums[1] : Tensor(), Tensor(), Tensor()};
  }

 private:
  // The same out of plain operations, for gradients of the gradient.
  static tensor_list with_graph(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& dy,
                                double eps) {
    const Tensor full = x.to(torch::kFloat32), g = dy.to(torch::kFloat32);
    const Tensor shifted = full - full.mean(-1, true);
    const Tensor rstd = (shifted.square().mean(-1, true) + eps).rsqrt(), e = shifted * rstd;
    const Tensor scaled = gamma.defined() ? g * gamma : g;
    const Tensor dx = rstd * (scaled - scaled.mean(-1, true) - e * (scaled * e).mean(-1, true));
    const auto sum_rows = [](const Tensor& t) { return as_rows(t).sum(0); };
    return {dx.to(x.scalar_type()), gamma.defined() ? sum_rows(g * e) : Tensor(),
            beta.defined() ? sum_rows(g) : Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

NormedStream layer_norm_beside(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                               const LayerNormOptions& options) {
  if (x.dim() < 1) throw InvalidArgument("[layer_norm] found x without dimensions: it must be [...,C]");
  const Index C = x.size(-1);
  for (const Tensor& t : {gamma, beta})
    if (t.defined() && (t.dim() != 1 || t.size(0) != C))
      throw InvalidArgument(fmt::format("[layer_norm] found gamma or beta [{}]: with x [{}] they must be [{}]",
                                        fmt::join(t.sizes(), ","), fmt::join(x.sizes(), ","), C));
  const torch::ScalarType dtype = options.dtype.value_or(
      autocast_to_bf16() && x.scalar_type() == torch::kFloat32 ? torch::kBFloat16 : x.scalar_type());
  if (!x.device().is_cpu() || !is_served(x.scalar_type()) || !is_served(dtype) || C == 0 ||
      PlainOperations::are_wanted())
    return {at::layer_norm(x, {C}, gamma.defined() ? gamma.to(x.scalar_type()) : gamma,
                           beta.defined() ? beta.to(x.scalar_type()) : beta, options.eps)
                .to(dtype),
            x};
  const auto floats = [](const Tensor& t) { return present(t.defined() ? t.to(torch::kFloat32) : t); };
  const tensor_list both = Normalise::apply(x, floats(gamma), floats(beta), options.eps, dtype);
  return {both[0], both[1]};
}

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, const LayerNormOptions& options) {
  return layer_norm_beside(x, gamma, beta, options).normed;
}

}  // namespace saddle::nn
