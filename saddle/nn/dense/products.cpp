#include "saddle/nn/dense/products.hpp"

#include "saddle/kernels/dense/sweeps.hpp"
#include "saddle/nn/dense/packed_weights.hpp"
#include "saddle/nn/plain.hpp"

namespace saddle::nn {

namespace {

using kernels::AmxRows;
using kernels::dense::Finish;
using kernels::dense::PackedWeight;

AmxRows amx_rows(const Tensor& x) {
  if (x.scalar_type() == torch::kFloat32) return {{}, rows_of<const float>(x)};
  return {rows_of<const BFloat16>(x), {}};
}

template <class Y>
Finish<Y> finish_of(const Finished& to) {
  return {floats_of(to.bias), rows_of<const Y>(to.residual), rows_of<Y>(to.slope), rows_of<Y>(to.y), to.activation};
}

}  // namespace

void multiply(const Tensor& x, const Tensor& weight, Side side, const Finished& to, bool bf16) {
  const Index M = x.size(0);
  if (!bf16) {
    PackedWeight<float> packed;
    packed.pack(side, rows_of<const float>(weight), weight.size(0), weight.size(1));
    kernels::dense::multiply(rows_of<const float>(x), M, packed, finish_of<float>(to));
    return;
  }
  const auto packed = packed_weight(weight, side);
  if (to.y.scalar_type() == torch::kFloat32) {
    kernels::dense::multiply(amx_rows(x), M, *packed, finish_of<float>(to));
  } else {
    kernels::dense::multiply(amx_rows(x), M, *packed, finish_of<BFloat16>(to));
  }
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

Tensor gelu_gradient(const Tensor& dy, const Tensor& slope, const Tensor& db) {
  Tensor dpre = torch::empty(slope.sizes(), slope.options());
  const auto sweep = [&]<class T>(T) {
    kernels::dense::gelu_backward(rows_of<const T>(dy), rows_of<const T>(slope), rows_of<T>(dpre), slope.size(0),
                                  slope.size(1), floats_of(db));
  };
  if (slope.scalar_type() == torch::kFloat32) {
    sweep(float{});
  } else {
    sweep(BFloat16{});
  }
  return dpre;
}

c10::optional<torch::ScalarType> product_type(const Tensor& x, const Tensor& weight) {
  const auto served = [](const Tensor& t) {
    return t.device().is_cpu() && (t.scalar_type() == torch::kFloat32 || t.scalar_type() == torch::kBFloat16);
  };
  if (!served(x) || !served(weight) || weight.numel() == 0 || PlainOperations::are_wanted()) return c10::nullopt;
  return autocast_to_bf16() || x.scalar_type() == torch::kBFloat16 ? torch::kBFloat16 : torch::kFloat32;
}

}  // namespace saddle::nn
