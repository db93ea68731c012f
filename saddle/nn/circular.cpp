#include "saddle/nn/circular.hpp"

#include <torch/autograd.h>

#include <limits>

#include "saddle/base/error.hpp"
#include "saddle/nn/plain.hpp"
#include "saddle/nn/tensor.hpp"

namespace saddle::nn {

namespace {

using kernels::circular::CausalCall;
using kernels::circular::CircularCall;
using kernels::circular::CircularShape;
using kernels::circular::Direction;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// [B,H,N,D] over memory laid out as [B,N,H,D], so that heads join without a copy.
Tensor empty_heads(const Tensor& v) {
  return torch::empty({v.size(0), v.size(2), v.size(1), v.size(3)}, v.options()).transpose(1, 2);
}

// The kernel wants the channels of a head side by side.
Tensor with_dense_channels(const Tensor& x) { return x.stride(-1) == 1 || x.size(-1) == 1 ? x : x.contiguous(); }

template <class T, int Rank>
View<T, Rank> view(const Tensor& x) {
  View<T, Rank> view;
  view.data = static_cast<T*>(x.data_ptr());
  for (int i = 0; i < Rank; ++i) {
    view.shape[i] = x.size(i);
    view.stride[i] = x.stride(i);
  }
  return view;
}

// One kernel for all channels when w has three axes.
template <class T>
View<T, 4> kernel_view(const Tensor& w, Index D) {
  return w.dim() == 3 ? kernels::circular::per_head(view<T, 3>(w), D) : view<T, 4>(w);
}

CircularShape shape_of(const Tensor& v) { return {v.size(0), v.size(1), v.size(2), v.size(3)}; }

// Calls f with a null pointer to the element type.
template <class F>
void with_type(const Tensor& x, F&& f) {
  if (x.scalar_type() == torch::kFloat64) return f(static_cast<double*>(nullptr));
  TORCH_CHECK(x.scalar_type() == torch::kFloat32, "circular products run in float or double");
  f(static_cast<float*>(nullptr));
}

class CircularProduct : public torch::autograd::Function<CircularProduct> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& given_w, const Tensor& given_v, const Tensor& lengths,
                        int64_t direction) {
    const Tensor w = with_dense_channels(given_w), v = with_dense_channels(given_v);
    follow_torch_threads();
    Tensor y = empty_heads(v);
    with_type(v, [&]<class T>(T*) { kernels::circular::forward<T>(call<T>(w, v, lengths, direction), view<T, 4>(y)); });
    context->save_for_backward({w, v, lengths});
    context->saved_data["direction"] = direction;
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &w = saved[0], &v = saved[1];
    const Tensor dy = with_dense_channels(gradients[0]);
    follow_torch_threads();
    Tensor dw = torch::empty(w.sizes(), w.options()), dv = empty_heads(v);
    with_type(v, [&]<class T>(T*) {
      kernels::circular::backward<T>(call<T>(w, v, saved[2], context->saved_data["direction"].toInt()),
                                     view<const T, 4>(dy), kernel_view<T>(dw, v.size(3)), view<T, 4>(dv));
    });
    return {dw, dv, Tensor(), Tensor()};
  }

 private:
  template <class T>
  static CircularCall<T> call(const Tensor& w, const Tensor& v, const Tensor& lengths, int64_t direction) {
    CircularCall<T> call;
    call.shape = shape_of(v);
    call.direction = static_cast<Direction>(direction);
    call.lengths = lengths.data_ptr<int64_t>();
    call.w = kernel_view<const T>(w, v.size(3));
    call.v = view<const T, 4>(v);
    return call;
  }
};

class CausalProduct : public torch::autograd::Function<CausalProduct> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& z, const Tensor& given_v, const Tensor& lengths) {
    const Tensor v = with_dense_channels(given_v);
    follow_torch_threads();
    Tensor y = empty_heads(v);
    with_type(v, [&]<class T>(T*) { kernels::circular::causal_forward<T>(call<T>(z, v, lengths), view<T, 4>(y)); });
    context->save_for_backward({z, v, lengths, y});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &z = saved[0], &v = saved[1];
    const Tensor dy = with_dense_channels(gradients[0]);
    follow_torch_threads();
    Tensor dz = torch::empty(z.sizes(), z.options()), dv = empty_heads(v);
    with_type(v, [&]<class T>(T*) {
      kernels::circular::causal_backward<T>(call<T>(z, v, saved[2]), view<const T, 4>(saved[3]), view<const T, 4>(dy),
                                            view<T, 3>(dz), view<T, 4>(dv));
    });
    return {dz, dv, Tensor()};
  }

 private:
  template <class T>
  static CausalCall<T> call(const Tensor& z, const Tensor& v, const Tensor& lengths) {
    CausalCall<T> call;
    call.shape = shape_of(v);
    call.lengths = lengths.data_ptr<int64_t>();
    call.z = view<const T, 3>(z);
    call.v = view<const T, 4>(v);
    return call;
  }
};

bool plainly(const Tensor& v) { return PlainOperations::are_wanted() || !v.is_cpu(); }

// i - j for i, j < N: [N,N]
Tensor differences(const Tensor& like) {
  const Tensor n = torch::arange(like.size(2), torch::TensorOptions(torch::kInt64).device(like.device()));
  return n.unsqueeze(1) - n;
}

// [B,1,N,1], 1 for tokens before the length of their sequence.
Tensor existing(const Tensor& lengths, const Tensor& like) {
  const Tensor n = torch::arange(like.size(2), torch::TensorOptions(torch::kInt64).device(like.device()));
  return n.lt(lengths.to(like.device()).unsqueeze(1)).to(like.scalar_type()).view({-1, 1, like.size(2), 1});
}

// w [B,H,N,..] at entries [N,N], or [B,1,N,N] of each sequence: [B,H,N,N,..]
Tensor spread(const Tensor& w, const Tensor& entries) {
  const int64_t N = w.size(2);
  if (entries.dim() == 2) return w.index_select(2, entries.flatten()).unflatten(2, {N, N});
  Tensor at = entries.expand({-1, w.size(1), -1, -1}).flatten(2);
  if (w.dim() == 3) return w.gather(2, at).unflatten(2, {N, N});
  return w.gather(2, at.unsqueeze(3).expand({-1, -1, -1, w.size(3)})).unflatten(2, {N, N});
}

// The matrix of a circular product, [B,H,N,N,..]. A sequence with a length is turned round there; what lies behind it
// is not used.
Tensor circulant(const Tensor& w, const Tensor& lengths, Direction direction) {
  Tensor apart = differences(w);
  if (direction == Direction::correlation) apart = apart.neg();
  Tensor entries = torch::where(apart.lt(0), apart + w.size(2), apart);
  if (lengths.defined()) {
    const Tensor turned = apart + lengths.to(w.device()).view({-1, 1, 1, 1});
    entries = torch::where(apart.lt(0), turned, apart).clamp(0, w.size(2) - 1);
  }
  return spread(w, entries);
}

// The matrix of a causal product, [B,H,N,N].
Tensor causal_toeplitz(const Tensor& z) {
  const Tensor apart = differences(z);
  const Tensor scores = spread(z, apart.clamp_min(0));
  const Tensor weights = scores.masked_fill(apart.lt(0), -std::numeric_limits<double>::infinity()).softmax(3);
  // A row whose scores are all -inf has none.
  return torch::where(weights.eq(weights), weights, torch::zeros({}, z.options()));
}

Tensor plain_circular(const Tensor& w, const Tensor& v, const Tensor& lengths, Direction direction) {
  Tensor values = v, exist;
  if (lengths.defined()) {
    exist = existing(lengths, v);
    values = v * exist;
  }
  const Tensor matrix = circulant(w, lengths, direction);
  const Tensor y = w.dim() == 3 ? torch::matmul(matrix, values) : (matrix * values.unsqueeze(2)).sum(3);
  return exist.defined() ? y * exist : y;
}

Tensor plain_causal(const Tensor& z, const Tensor& v, const Tensor& lengths) {
  const Tensor y = torch::matmul(causal_toeplitz(z), v);
  return lengths.defined() ? y * existing(lengths, v) : y;
}

}  // namespace

Tensor circular_product(const Tensor& w, const Tensor& v, const Tensor& lengths, Direction direction) {
  if (plainly(v)) return plain_circular(w, v, lengths, direction);
  return CircularProduct::apply(w, v, lengths, static_cast<int64_t>(direction));
}

Tensor causal_product(const Tensor& z, const Tensor& v, const Tensor& lengths) {
  if (plainly(v)) return plain_causal(z, v, lengths);
  return CausalProduct::apply(z, v, lengths);
}

Tensor circular_weights(const Tensor& w, const Tensor& lengths, Direction direction) {
  const Tensor kernel = w.dim() == 4 ? w.mean(3) : w;
  // Sequences of full length share their entries, which saves most of the memory.
  if (!lengths.defined() || lengths.eq(w.size(2)).all().item<bool>()) return circulant(kernel, {}, direction);
  const Tensor exist = existing(lengths, kernel);
  return circulant(kernel, lengths, direction) * exist * exist.transpose(2, 3);
}

Tensor causal_weights(const Tensor& z, const Tensor& lengths) {
  const Tensor matrix = causal_toeplitz(z);
  return lengths.defined() ? matrix * existing(lengths, matrix) : matrix;
}

Tensor prefix_lengths(const Tensor& key_mask, int64_t B, int64_t N) {
  if (PlainOperations::are_wanted()) return key_mask.defined() ? key_mask.to(torch::kInt64).sum(1) : Tensor();
  if (!key_mask.defined()) return torch::full({B}, N, torch::kInt64);
  const Tensor mask = key_mask.to(torch::kInt64).cpu();
  const Tensor lengths = mask.sum(1);
  if (!mask.cumprod(1).sum(1).equal(lengths))
    throw InvalidArgument("[cat] a token exists behind one that does not",
                          "circular attention turns round at the length of a sequence: padding must stand at its end");
  return lengths;
}

}  // namespace saddle::nn
