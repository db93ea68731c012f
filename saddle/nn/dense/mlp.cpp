#include "saddle/nn/dense/mlp.hpp"

#include <torch/csrc/autograd/custom_function.h>

#include "saddle/base/error.hpp"
#include "saddle/nn/dense/products.hpp"
#include "saddle/nn/tensor.hpp"

namespace saddle::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// The gradients of the six inputs out of plain operations, for gradients of the gradient.
tensor_list with_graph(const Tensor& x, const MlpWeights& w, const Tensor& dy) {
  const Tensor rows = as_rows(x).to(torch::kFloat32), out = as_rows(dy).to(torch::kFloat32);
  const Tensor pre = at::linear(rows, w.w1, w.b1);
  const Tensor dpre = at::gelu_backward(at::matmul(out, w.w2), pre);
  return {at::matmul(dpre, w.w1).to(x.scalar_type()).view(x.sizes()), at::matmul(dpre.t(), rows),
          w.b1.defined() ? dpre.sum(0) : Tensor(), at::matmul(out.t(), at::gelu(pre)),
          w.b2.defined() ? out.sum(0) : Tensor()};
}

// As Linear in linear.cpp: x says how products are taken, weights are float32, the residual has the type of the result.
class MlpNode : public torch::autograd::Function<MlpNode> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& w1, const c10::optional<Tensor>& b1,
                        const Tensor& w2, const c10::optional<Tensor>& b2, const c10::optional<Tensor>& residual,
                        torch::ScalarType dtype) {
    follow_torch_threads();
    const bool bf16 = x.scalar_type() == torch::kBFloat16;
    const Tensor rows = as_rows(x), first = b1.value_or(Tensor()), second = b2.value_or(Tensor());
    const Tensor slope = torch::empty({rows.size(0), w1.size(0)}, x.options()), hidden = torch::empty_like(slope);
    multiply(rows, as_rows(w1), Side::output, {contiguous(first), {}, slope, hidden, Activation::gelu}, bf16);
    const Tensor y = torch::empty({rows.size(0), w2.size(0)}, x.options().dtype(dtype));
    multiply(hidden, as_rows(w2), Side::output, {contiguous(second), rows_or_none(residual.value_or(Tensor())), {}, y},
             bf16);
    context->save_for_backward({x, w1, first, w2, second, slope, hidden});
    context->saved_data["residual"] = residual.has_value();
    std::vector<Index> sizes(x.sizes().begin(), x.sizes().end());
    sizes.back() = w2.size(0);
    return y.view(sizes);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    follow_torch_threads();
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &w1 = saved[1], &b1 = saved[2], &w2 = saved[3], &b2 = saved[4], &slope = saved[5],
                 &hidden = saved[6], &dy = gradients[0];
    const Tensor residual = context->saved_data["residual"].toBool() ? dy : Tensor();
    if (at::GradMode::is_enabled()) {
      tensor_list found = with_graph(x, {w1, b1, w2, b2}, dy);
      found.push_back(residual);
      found.emplace_back();
      return found;
    }
    const bool bf16 = x.scalar_type() == torch::kBFloat16;
    const Tensor rows = as_rows(x), dy_rows = as_rows(dy);
    const auto sums = [&](const Tensor& bias) {
      return bias.defined() ? torch::empty({bias.size(0)}, w1.options()) : Tensor();
    };
    const Tensor db1 = sums(b1), db2 = sums(b2), dpre = torch::empty_like(slope);
    const Tensor dw2 = weight_gradient(dy_rows, hidden, db2, bf16);
    multiply(dy_rows, as_rows(w2), Side::input, {{}, {}, slope, dpre, Activation::times_slope}, bf16);
    const Tensor dw1 = weight_gradient(dpre, rows, db1, bf16);
    Tensor dx;
    if (context->needs_input_grad(0)) {
      dx = torch::empty(rows.sizes(), x.options());
      multiply(dpre, as_rows(w1), Side::input, {{}, {}, {}, dx}, bf16);
      dx = dx.view(x.sizes());
    }
    return {dx, dw1, db1, dw2, db2, residual, Tensor()};
  }
};

}  // namespace

Tensor mlp(const Tensor& x, const MlpWeights& w, const LinearOptions& out) {
  const bool fits = w.w1.dim() == 2 && w.w2.dim() == 2 && w.w2.size(1) == w.w1.size(0);
  const auto served = fits ? product_type(x, w.w1) : c10::nullopt;
  const torch::ScalarType type = served.value_or(torch::kFloat32);
  const bool wants_gradient =
      at::GradMode::is_enabled() && (x.requires_grad() || w.w1.requires_grad() || w.w2.requires_grad());
  const bool bf16 = type == torch::kBFloat16;
  // Nothing to gain without a gradient; what torch computes, and mistakes, are left to the layers.
  if (!served || !wants_gradient || (bf16 && !kernels::dense::has_bf16_products()))
    return nn::linear(linear_gelu(x, w.w1, w.b1), w.w2, w.b2, out);
  check_linear(x, w.w1, w.b1, {});
  check_bias(w.w2, w.b2);
  const torch::ScalarType dtype = out.dtype.value_or(type);
  const torch::ScalarType computed = bf16 && dtype == torch::kBFloat16 ? dtype : torch::kFloat32;
  std::vector<Index> sizes(x.sizes().begin(), x.sizes().end());
  sizes.back() = w.w2.size(0);
  if (out.residual.defined() && out.residual.sizes() != torch::IntArrayRef(sizes))
    throw InvalidArgument("[mlp] the residual must have the shape of the result");
  const auto floats = [](const Tensor& t) { return present(t.defined() ? t.to(torch::kFloat32) : t); };
  const Tensor residual = out.residual.defined() ? out.residual.to(computed) : out.residual;
  return MlpNode::apply(x.to(type), w.w1.to(torch::kFloat32), floats(w.b1), w.w2.to(torch::kFloat32), floats(w.b2),
                        present(residual), computed)
      .to(dtype);
}

}  // namespace saddle::nn
