#include "saddle/nn/dense/linear.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>

#include "saddle/base/error.hpp"
#include "saddle/nn/dense/products.hpp"
#include "saddle/nn/tensor.hpp"

namespace saddle::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// x is float32 or bfloat16, which says how products are taken; weight and bias are float32, bias and residual may be
// undefined, the residual has the type of the result.
class Linear : public torch::autograd::Function<Linear> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const c10::optional<Tensor>& given_bias, const c10::optional<Tensor>& given_residual, bool gelu,
                        bool keep_slope, torch::ScalarType dtype) {
    follow_torch_threads();
    const Tensor bias = given_bias.value_or(Tensor()), residual = given_residual.value_or(Tensor());
    const bool bf16 = x.scalar_type() == torch::kBFloat16;
    const Tensor rows = as_rows(x), w = as_rows(weight);
    std::vector<Index> sizes(x.sizes().begin(), x.sizes().end());
    sizes.back() = w.size(0);
    const Tensor y = torch::empty({rows.size(0), w.size(0)}, x.options().dtype(dtype));
    const Tensor slope = gelu && keep_slope ? torch::empty_like(y) : Tensor();
    multiply(rows, w, Side::output,
             {contiguous(bias), rows_or_none(residual), slope, y, gelu ? Activation::gelu : Activation::none}, bf16);
    context->save_for_backward({x, weight, bias, slope});
    context->saved_data["residual"] = residual.defined();
    return y.view(sizes);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    follow_torch_threads();
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &slope = saved[3];
    const bool has_residual = context->saved_data["residual"].toBool();
    const Tensor& dy = gradients[0];
    const bool bf16 = x.scalar_type() == torch::kBFloat16;
    Tensor dx, dw, db;
    if (at::GradMode::is_enabled()) {
      // A graph of the gradient is wanted: plain operations.
      const Tensor x_rows = as_rows(x).to(torch::kFloat32);
      Tensor dy_rows = as_rows(dy).to(torch::kFloat32);
      if (slope.defined()) dy_rows = at::gelu_backward(dy_rows, at::linear(x_rows, weight, bias));
      dx = at::matmul(dy_rows, weight).to(x.scalar_type()).view(x.sizes());
      dw = at::matmul(dy_rows.t(), x_rows);
      if (bias.defined()) db = dy_rows.sum(0);
    } else {
      const Tensor x_rows = as_rows(x), w = as_rows(weight);
      Tensor dy_rows = as_rows(dy);
      const bool want_dw = context->needs_input_grad(1), want_db = bias.defined() && context->needs_input_grad(2);
      if (want_db) db = torch::empty({w.size(0)}, w.options());
      if (slope.defined()) dy_rows = gelu_gradient(dy_rows, slope, db);
      const Tensor none, &unsummed = slope.defined() ? none : db;
      if (want_dw) {
        dw = weight_gradient(dy_rows, x_rows, unsummed, bf16);
      } else if (unsummed.defined()) {
        db = dy_rows.sum(0, false, torch::kFloat32);
      }
      if (context->needs_input_grad(0)) {
        dx = torch::empty(x_rows.sizes(), x.options());
        multiply(dy_rows, w, Side::input, {{}, {}, {}, dx}, bf16);
        dx = dx.view(x.sizes());
      }
    }
    return {dx, dw, db, has_residual ? dy : Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

void check_bias(const Tensor& weight, const Tensor& bias) {
  if (bias.defined() && (bias.dim() != 1 || bias.size(0) != weight.size(0)))
    throw InvalidArgument(fmt::format("[linear] found bias [{}]: with weight [{}] it must be [{}]",
                                      fmt::join(bias.sizes(), ","), fmt::join(weight.sizes(), ","), weight.size(0)));
}

void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual) {
  if (weight.dim() != 2 || x.dim() < 1 || x.size(-1) != weight.size(1))
    throw InvalidArgument(
        fmt::format("[linear] found x [{}] and weight [{}]: the last size of x must be the last of weight "
                    "[O,I]",
                    fmt::join(x.sizes(), ","), fmt::join(weight.sizes(), ",")));
  check_bias(weight, bias);
  if (!residual.defined()) return;
  std::vector<Index> sizes(x.sizes().begin(), x.sizes().end());
  sizes.back() = weight.size(0);
  if (residual.sizes() != torch::IntArrayRef(sizes))
    throw InvalidArgument(fmt::format("[linear] found residual [{}]: it must be like the result, [{}]",
                                      fmt::join(residual.sizes(), ","), fmt::join(sizes, ",")));
}

namespace {

Tensor run(const Tensor& x, const Tensor& weight, const Tensor& bias, const LinearOptions& options, bool gelu) {
  check_linear(x, weight, bias, options.residual);
  const auto type = product_type(x, weight);
  if (!type) {
    Tensor y = at::linear(x, weight, bias);
    if (options.residual.defined()) y = y + options.residual;
    if (gelu) y = at::gelu(y);
    return options.dtype ? y.to(*options.dtype) : y;
  }
  const torch::ScalarType dtype = options.dtype.value_or(*type);
  const bool half = *type == torch::kBFloat16 && kernels::dense::has_bf16_products();
  // Without products in bfloat16 only the result is rounded.
  const torch::ScalarType computed = half && dtype == torch::kBFloat16 ? torch::kBFloat16 : torch::kFloat32;
  const Tensor w = weight.to(torch::kFloat32);
  const Tensor b = bias.defined() ? bias.to(torch::kFloat32) : bias;
  const Tensor residual = options.residual.defined() ? options.residual.to(computed) : options.residual;
  const bool keep_slope =
      at::GradMode::is_enabled() && (x.requires_grad() || w.requires_grad() || (b.defined() && b.requires_grad()));
  const Tensor y = Linear::apply(x.to(half ? torch::kBFloat16 : torch::kFloat32), w, present(b), present(residual),
                                 gelu, keep_slope, computed);
  return y.to(dtype);
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const LinearOptions& options) {
  return run(x, weight, bias, options, false);
}

Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias) { return run(x, weight, bias, {}, true); }

}  // namespace saddle::nn
