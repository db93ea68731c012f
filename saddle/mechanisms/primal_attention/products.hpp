// What the module of Primal-Attention computes beside linear layers: one small product per sample and head, of unit
// vectors or not, and running sums over tokens. float on CPUs runs here, everything else in torch.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include <algorithm>
#include <array>

#include "saddle/base/parallel.hpp"
#include "saddle/kernels/dense/product.hpp"
#include "saddle/nn/plain.hpp"
#include "saddle/nn/tensor.hpp"

namespace saddle::mechanisms::primal_attention {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

inline bool runs_here(const Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == torch::kFloat32 && x.numel() > 0 &&
         !nn::PlainOperations::are_wanted();
}

// Rows of the tokens of one head of a dense x [B,N,H,D].
inline kernels::Rows<float> head_rows(const Tensor& x, Index b, Index h) {
  return {x.data_ptr<float>() + (b * x.size(1) * x.size(2) + h) * x.size(3), x.size(2) * x.size(3)};
}

// f(b, h) for every head of x [B,N,H,D], side by side if there are enough; else each f shares its work out itself.
template <class F>
void each_head(const Tensor& x, F&& f) {
  nn::follow_torch_threads();
  const Index H = x.size(2), count = x.size(0) * H;
  const auto one = [&](Index i) { f(i / H, i % H); };
  if (count >= threads())
    parallel_for(count, 1, one);
  else
    for (Index i = 0; i < count; ++i) one(i);
}

Tensor head_product(const Tensor& x, const Tensor& w);

// x [B,N,H,D], dy [B,N,H,S] -> x' dy [B,H,D,S]
inline Tensor head_gradient(const Tensor& given_x, const Tensor& given_dy) {
  if (at::GradMode::is_enabled() || !runs_here(given_x))
    return torch::matmul(given_x.permute({0, 2, 3, 1}), given_dy.transpose(1, 2));
  const Tensor x = given_x.contiguous(), dy = given_dy.contiguous();
  const Index B = x.size(0), N = x.size(1), H = x.size(2), D = x.size(3), S = dy.size(3);
  const Tensor dw = torch::empty({B, H, D, S}, x.options());
  each_head(x, [&](Index b, Index h) {
    kernels::dense::weight_gradient(head_rows(x, b, h), head_rows(dy, b, h), N, D, S,
                                    {dw.data_ptr<float>() + (b * H + h) * D * S, S}, nullptr);
  });
  return dw;
}

class HeadProduct : public torch::autograd::Function<HeadProduct> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& given_x, const Tensor& given_w) {
    const Tensor x = given_x.contiguous(), w = given_w.contiguous();
    const Index N = x.size(1), H = x.size(2), D = w.size(2), S = w.size(3);
    const Tensor y = torch::empty({x.size(0), N, H, S}, x.options());
    each_head(x, [&](Index b, Index h) {
      kernels::dense::PackedWeight<float> packed;
      packed.pack(kernels::dense::Side::input, {w.data_ptr<float>() + ((w.size(0) > 1 ? b : 0) * H + h) * D * S, S}, D,
                  S);
      kernels::dense::Finish<float> finish;
      finish.y = head_rows(y, b, h);
      kernels::dense::multiply(head_rows(x, b, h), N, packed, finish);
    });
    context->save_for_backward({given_x, given_w});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &w = saved[1], &dy = gradients[0];
    return {head_product(dy, w.transpose(2, 3)), head_gradient(x, dy).sum_to_size(w.sizes())};
  }
};

// x [B,N,H,D], w [B,H,D,S] or, for all samples, [1,H,D,S] -> [B,N,H,S]. In float32 at least: autocast to bfloat16 is
// for linear layers, where the work is.
inline Tensor head_product(const Tensor& x, const Tensor& w) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  if (runs_here(x) && runs_here(w)) return HeadProduct::apply(x, w);
  return torch::matmul(x.transpose(1, 2), w).transpose(1, 2);
}

// x [B,N,H,D], least of a shape that broadcasts to [B,N,H,1] -> max(|x|, least).
inline Tensor length_of(const Tensor& x, const Tensor& least) { return torch::maximum(x.norm(2, {3}, true), least); }

class UnitProduct : public torch::autograd::Function<UnitProduct> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& w, const Tensor& least) {
    Tensor y = head_product(x, w).div_(length_of(x, least));
    context->save_for_backward({x, w, least, y});
    return y;
  }

  // With u = x / length, y = u w: the part of dx along u vanishes, unless the length is the bound.
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &w = saved[1], &least = saved[2], &y = saved[3], &dy = gradients[0];
    const Tensor length = length_of(x, least), scaled = dy / length;
    const Tensor along = ((scaled * y).sum({3}, true) / length).masked_fill(length.le(least), 0);
    const Tensor dx = head_product(scaled, w.transpose(2, 3)).addcmul(x, along, -1);
    return {dx, head_gradient(x, scaled).sum_to_size(w.sizes()), Tensor()};
  }
};

// (x / max(|x|, least)) w, as head_product.
inline Tensor unit_product(const Tensor& x, const Tensor& w, const Tensor& least) {
  if (runs_here(x) && runs_here(w)) return UnitProduct::apply(x, w, least);
  return head_product(x, w) / length_of(x, least);
}

class RunningSum : public torch::autograd::Function<RunningSum> {
 public:
  static Tensor forward(AutogradContext*, const Tensor& x) { return summed(x.contiguous(), false); }

  static variable_list backward(AutogradContext*, variable_list gradients) {
    const Tensor& dy = gradients[0];
    if (at::GradMode::is_enabled()) return {dy.flip({1}).cumsum(1).flip({1})};
    return {summed(dy.contiguous(), true)};
  }

 private:
  static constexpr Index block = 64;  // columns of a task

  // From the first token on, or from the last one; summed up in double.
  static Tensor summed(const Tensor& x, bool from_last) {
    nn::follow_torch_threads();
    const Index N = x.size(1), X = x.size(2), blocks = (X + block - 1) / block;
    Tensor y = torch::empty_like(x);
    const float* const from = x.data_ptr<float>();
    float* const to = y.data_ptr<float>();
    parallel_for(x.size(0) * blocks, 1, [&](Index task) {
      const Index first = task % blocks * block, count = std::min(block, X - first);
      std::array<double, block> sums{};
      for (Index i = 0; i < N; ++i) {
        const Index row = (task / blocks * N + (from_last ? N - 1 - i : i)) * X + first;
        for (Index c = 0; c < count; ++c) {
          sums[c] += from[row + c];
          to[row + c] = static_cast<float>(sums[c]);
        }
      }
    });
    return y;
  }
};

// x [B,N,X] -> sums over the tokens up to each.
inline Tensor running_sum(const Tensor& x) { return runs_here(x) ? RunningSum::apply(x) : x.cumsum(1); }

}  // namespace saddle::mechanisms::primal_attention
