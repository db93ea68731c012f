#include "saddle/nn/dense/linear.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>

#include "saddle/base/error.hpp"
#include "saddle/kernels/dense/product.hpp"
#include "saddle/kernels/dense/sweeps.hpp"
#include "saddle/nn/dense/packed_weights.hpp"
#include "saddle/nn/dense/rows.hpp"
#include "saddle/nn/plain.hpp"
#include "saddle/nn/tensor.hpp"

namespace saddle::nn {

namespace {

using kernels::AmxRows;
using kernels::dense::Activation;
using kernels::dense::Finish;
using kernels::dense::PackedWeight;
using kernels::dense::Side;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

AmxRows amx_rows(const Tensor& x) {
  if (x.scalar_type() == torch::kFloat32) return {{}, rows_of<const float>(x)};
  return {rows_of<const BFloat16>(x), {}};
}

// y = finish(x W^T) or finish(x W), all of them rows.
template <class Y>
void multiply(const Tensor& x, const Tensor& weight, Side side, const Finish<Y>& finish, bool bf16) {
  const Index M = x.size(0);
  if (bf16) {
    kernels::dense::multiply(amx_rows(x), M, *packed_weight(weight, side), finish);
    return;
  }
  if constexpr (std::is_same_v<Y, float>) {
    PackedWeight<float> packed;
    packed.pack(side, rows_of<const float>(weight), weight.size(0), weight.size(1));
    kernels::dense::multiply(rows_of<const float>(x), M, packed, finish);
  }
}

struct Result {
  Tensor y, pre;
};

template <class Y>
void multiply_into(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                   Activation activation, const Result& result, bool bf16) {
  const Finish<Y> finish{floats_of(bias), rows_of<const Y>(residual), rows_of<Y>(result.pre), rows_of<Y>(result.y),
                         activation};
  multiply(x, weight, Side::output, finish, bf16);
}

Tensor gradient_of_gelu(const Tensor& dy, const Tensor& pre, const Tensor& db) {
  Tensor dpre = torch::empty(pre.sizes(), pre.options());
  const Index M = pre.size(0), columns = pre.size(1);
  float* const sums = floats_of(db);
  if (pre.scalar_type() == torch::kFloat32) {
    kernels::dense::gelu_backward(rows_of<const float>(dy), rows_of<const float>(pre), rows_of<float>(dpre), M, columns,
                                  sums);
  } else {
    kernels::dense::gelu_backward(rows_of<const BFloat16>(dy), rows_of<const BFloat16>(pre), rows_of<BFloat16>(dpre), M,
                                  columns, sums);
  }
  return dpre;
}

Tensor weight_gradient(const Tensor& dy, const Tensor& x, const Tensor& db, bool bf16) {
  const Index M = x.size(0), O = dy.size(1), I = x.size(1);
  Tensor dw = torch::empty({O, I}, x.options().dtype(torch::kFloat32));
  float* const sums = floats_of(db);
  if (bf16) {
    kernels::dense::weight_gradient(amx_rows(dy), amx_rows(x), M, O, I, rows_of<float>(dw), sums);
  } else {
    kernels::dense::weight_gradient(rows_of<const float>(dy), rows_of<const float>(x), M, O, I, rows_of<float>(dw),
                                    sums);
  }
  return dw;
}

// x is float32 or bfloat16, which says how products are taken; weight and bias are float32, bias and residual may be
// undefined, the residual has the type of the result.
class Linear : public torch::autograd::Function<Linear> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const c10::optional<Tensor>& given_bias, const c10::optional<Tensor>& given_residual, bool gelu,
                        bool keep_pre, torch::ScalarType dtype) {
    follow_torch_threads();
    const Tensor bias = given_bias.value_or(Tensor()), residual = given_residual.value_or(Tensor());
    const bool bf16 = x.scalar_type() == torch::kBFloat16;
    const Tensor rows = as_rows(x), w = as_rows(weight);
    std::vector<Index> sizes(x.sizes().begin(), x.sizes().end());
    sizes.back() = w.size(0);
    Result result;
    result.y = torch::empty({rows.size(0), w.size(0)}, x.options().dtype(dtype));
    if (gelu && keep_pre) result.pre = torch::empty_like(result.y);
    const Tensor added = residual.defined() ? as_rows(residual) : residual;
    const Tensor b = bias.defined() ? bias.contiguous() : bias;
    const Activation activation = gelu ? Activation::gelu : Activation::none;
    if (dtype == torch::kFloat32) {
      multiply_into<float>(rows, w, b, added, activation, result, bf16);
    } else {
      multiply_into<BFloat16>(rows, w, b, added, activation, result, bf16);
    }
    context->save_for_backward({x, weight, bias, result.pre});
    context->saved_data["residual"] = residual.defined();
    return result.y.view(sizes);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    follow_torch_threads();
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &pre = saved[3];
    const bool has_residual = context->saved_data["residual"].toBool();
    const Tensor& dy = gradients[0];
    const bool bf16 = x.scalar_type() == torch::kBFloat16;
    Tensor dx, dw, db;
    if (at::GradMode::is_enabled()) {
      // A graph of the gradient is wanted: plain operations.
      const Tensor x_rows = as_rows(x).to(torch::kFloat32);
      Tensor dy_rows = as_rows(dy).to(torch::kFloat32);
      if (pre.defined()) dy_rows = at::gelu_backward(dy_rows, at::linear(x_rows, weight, bias));
      dx = at::matmul(dy_rows, weight).to(x.scalar_type()).view(x.sizes());
      dw = at::matmul(dy_rows.t(), x_rows);
      if (bias.defined()) db = dy_rows.sum(0);
    } else {
      const Tensor x_rows = as_rows(x), w = as_rows(weight);
      Tensor dy_rows = as_rows(dy);
      const bool want_dw = context->needs_input_grad(1), want_db = bias.defined() && context->needs_input_grad(2);
      if (want_db) db = torch::empty({w.size(0)}, w.options());
      if (pre.defined()) dy_rows = gradient_of_gelu(dy_rows, pre, db);
      const Tensor none, &unsummed = pre.defined() ? none : db;
      if (want_dw) {
        dw = weight_gradient(dy_rows, x_rows, unsummed, bf16);
      } else if (unsummed.defined()) {
        db = dy_rows.sum(0, false, torch::kFloat32);
      }
      if (context->needs_input_grad(0)) {
        dx = torch::empty(x_rows.sizes(), x.options());
        if (bf16) {
          multiply(dy_rows, w, Side::input, Finish<BFloat16>{nullptr, {}, {}, rows_of<BFloat16>(dx)}, true);
        } else {
          multiply(dy_rows, w, Side::input, Finish<float>{nullptr, {}, {}, rows_of<float>(dx)}, false);
        }
        dx = dx.view(x.sizes());
      }
    }
    return {dx, dw, db, has_residual ? dy : Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

void check_shapes(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual) {
  if (weight.dim() != 2 || x.dim() < 1 || x.size(-1) != weight.size(1))
    throw InvalidArgument(
        fmt::format("[linear] found x [{}] and weight [{}]: the last size of x must be the last of weight "
                    "[O,I]",
                    fmt::join(x.sizes(), ","), fmt::join(weight.sizes(), ",")));
  if (bias.defined() && (bias.dim() != 1 || bias.size(0) != weight.size(0)))
    throw InvalidArgument(fmt::format("[linear] found bias [{}]: with weight [{}] it must be [{}]",
                                      fmt::join(bias.sizes(), ","), fmt::join(weight.sizes(), ","), weight.size(0)));
  if (!residual.defined()) return;
  std::vector<Index> sizes(x.sizes().begin(), x.sizes().end());
  sizes.back() = weight.size(0);
  if (residual.sizes() != torch::IntArrayRef(sizes))
    throw InvalidArgument(fmt::format("[linear] found residual [{}]: it must be like the result, [{}]",
                                      fmt::join(residual.sizes(), ","), fmt::join(sizes, ",")));
}

// The type in which CPUs take the product here, or none if torch is to do it.
c10::optional<torch::ScalarType> product_type(const Tensor& x, const Tensor& weight) {
  const auto served = [](const Tensor& t) {
    return t.device().is_cpu() && (t.scalar_type() == torch::kFloat32 || t.scalar_type() == torch::kBFloat16);
  };
  if (!served(x) || !served(weight) || weight.numel() == 0 || PlainOperations::are_wanted()) return c10::nullopt;
  return autocast_to_bf16() || x.scalar_type() == torch::kBFloat16 ? torch::kBFloat16 : torch::kFloat32;
}

Tensor run(const Tensor& x, const Tensor& weight, const Tensor& bias, const LinearOptions& options, bool gelu) {
  check_shapes(x, weight, bias, options.residual);
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
  const bool keep_pre =
      at::GradMode::is_enabled() && (x.requires_grad() || w.requires_grad() || (b.defined() && b.requires_grad()));
  const Tensor y = Linear::apply(x.to(half ? torch::kBFloat16 : torch::kFloat32), w, present(b), present(residual),
                                 gelu, keep_pre, computed);
  return y.to(dtype);
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const LinearOptions& options) {
  return run(x, weight, bias, options, false);
}

Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias) { return run(x, weight, bias, {}, true); }

}  // namespace saddle::nn
