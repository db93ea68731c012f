// The optional outputs of the reference, and the ways its tensors may lie in memory.
#include "saddle/primal/reference.hpp"

#include <gtest/gtest.h>

#include "saddle/primal/testing_internal.hpp"

namespace saddle::primal {
namespace {

using namespace testing;

struct Everything {
  Tensor y, weights, lse, sums;
};

Everything run_everything(const Sample& s) {
  const Dims dims = s.dims();
  const Index K = weight_columns(s.attention, dims);
  const auto poisoned = [](const Shape& shape) {
    Tensor tensor(DType::f64, shape);
    for (Index i = 0; i < tensor.size(); ++i) tensor.set(i, std::nan(""));
    return tensor;
  };
  Everything out{poisoned({dims.B, dims.H, dims.N, dims.E}), poisoned({dims.B, dims.H, dims.N, K}),
                 poisoned({dims.B, dims.H, dims.N}), poisoned({dims.B, dims.H, K})};
  const Call call = s.call();
  const bool row_sum = std::holds_alternative<RowSum>(s.attention.normaliser);
  const Outputs outputs{out.y.view(), out.weights.view(), row_sum ? out.lse.view() : TensorView{}, out.sums.view()};
  validate(call);
  validate(call, outputs);
  reference_forward(call, outputs);
  return out;
}

// Without pooling and offset: y = A v, column sums are sums of A, and a row of A sums to 1 - den_eps/h.
TEST(Reference, OptionalOutputsBelongTogether) {
  for (const char* text : {"softmax", "softmax+bn(scale=std)", "rbf+causal", "linear(elu1)", "softmax+bn+causal",
                           "linear(relu)+sum(den_eps=0.2)", "poly+one", "softmax+constant(3)"}) {
    Sample s = sample(text, {2, 2, 5, 6, 3, 2});
    add_key_mask(s, true);
    add_mask(s);
    const Dims dims = s.dims();
    const Everything out = run_everything(s);
    EXPECT_EQ(out.y, run(s)) << text;
    const auto* sum = std::get_if<RowSum>(&s.attention.normaliser);
    for (Index bh = 0; bh < 4; ++bh) {
      for (Index i = 0; i < dims.N; ++i) {
        const Index row = bh * dims.N + i;
        double total = 0;
        std::vector<double> y(2);
        for (Index j = 0; j < dims.M; ++j) {
          const double weight = out.weights.at(row * dims.M + j);
          const bool hidden = s.mask.at(row * dims.M + j) == 0 || s.key_mask.at(bh / 2 * dims.M + j) == 0;
          EXPECT_TRUE(!hidden || weight == 0);
          total += weight;
          for (Index e = 0; e < 2; ++e) y[e] += weight * s.v.at((bh * dims.M + j) * 2 + e);
        }
        for (Index e = 0; e < 2; ++e) EXPECT_NEAR(out.y.at(row * 2 + e), y[e], 1e-13) << text;
        if (sum == nullptr) continue;
        const double log_h = out.lse.at(row);
        const double expected = std::isinf(log_h) ? 0 : 1 - den_eps_of(*sum, s.attention.kernel) / std::exp(log_h);
        EXPECT_NEAR(total, expected, 1e-12) << text;
      }
      for (Index j = 0; j < dims.M; ++j) {
        double column = 0;
        for (Index i = 0; i < dims.N; ++i) column += out.weights.at((bh * dims.N + i) * dims.M + j);
        EXPECT_NEAR(out.sums.at(bh * dims.M + j), column, 1e-13) << text;
      }
    }
  }
}

TEST(Reference, LogSumExpOfSoftmax) {
  const Sample s = sample("softmax(scale=2)", {1, 1, 3, 4, 2, 1}, 1, 15);  // scores of order 400
  const Everything out = run_everything(s);
  for (Index i = 0; i < 3; ++i) {
    std::vector<double> score(4);
    for (Index j = 0; j < 4; ++j)
      score[j] = 2 * (s.q.at(2 * i) * s.k.at(2 * j) + s.q.at(2 * i + 1) * s.k.at(2 * j + 1));
    const double top = *std::max_element(score.begin(), score.end());
    double sum = 0;
    for (double value : score) sum += std::exp(value - top);
    EXPECT_NEAR(out.lse.at(i), top + std::log(sum), 1e-10);
  }
}

// Heads with fewer keys fill their columns with 0.
TEST(Reference, PooledHeadsHaveFewerColumns) {
  const Everything out = run_everything(sample("softmax+sh(2,5)", {1, 2, 3, 7, 2, 2}));
  ASSERT_EQ(out.weights.shape(), (Shape{1, 2, 3, 4}));
  for (Index i = 0; i < 3; ++i)
    for (Index j = 2; j < 4; ++j) EXPECT_EQ(out.weights.at((3 + i) * 4 + j), 0);
  for (Index j = 2; j < 4; ++j) EXPECT_EQ(out.sums.at(4 + j), 0);
}

// x [B,H,n,C] laid out as [B,n,H,C]; the view has the shape of x.
Tensor token_major(const Tensor& x, TensorView& view) {
  const Shape& s = x.shape();
  Tensor moved(x.dtype(), {s[0], s[2], s[1], s[3]});
  view = moved.view();
  view.shape = s;
  view.stride = {s[2] * s[1] * s[3], s[3], s[1] * s[3], 1};
  from_double(to_double<4>(x.view()), view);
  return moved;
}

TEST(Reference, LayoutDoesNotMatter) {
  for (const char* text : {"softmax+bn(scale=std,learn=head)+sh(1,2,3)+residual", "linear(elu1)+causal"}) {
    const Sample s = sample(text, {2, 3, 4, 5, 3, 2});
    const Tensor y = run(s), dy = cotangent(y);
    const auto expected = gradients(s, dy);
    Call call = s.call();
    const Tensor q = token_major(s.q, call.q), k = token_major(s.k, call.k), v = token_major(s.v, call.v);
    const Tensor skip = s.attention.residual ? token_major(s.skip, call.skip) : Tensor();
    Outputs out;
    const Tensor moved_y = token_major(Tensor(DType::f64, y.shape()), out.y);
    validate(call);
    validate(call, out);
    reference_forward(call, out);
    EXPECT_EQ(to_double<4>(out.y), to_double<4>(y.view())) << text;
    Gradients g;
    const Tensor moved_dy = token_major(dy, g.dy);
    const Tensor moved_dq = token_major(Tensor(DType::f64, s.q.shape()), g.dq);
    reference_backward(call, g);
    EXPECT_EQ(to_double<4>(g.dq), to_double<4>(expected.at("q").view())) << text;
  }
}

// A mask of the heads alone, or of the batch alone, is broadcast by zero strides.
TEST(Reference, MasksBroadcast) {
  Sample s = sample("softmax", {2, 3, 4, 5, 2, 2});
  add_mask(s);
  Call call = s.call();
  call.mask.stride[0] = 0;  // sample 0 for all
  for (Index i = 60; i < 120; ++i) s.mask.set(i, s.mask.at(i - 60));
  Tensor y(DType::f64, {2, 3, 4, 2});
  reference_forward(call, {y.view(), {}, {}, {}});
  EXPECT_EQ(y, run(s));
}

// In self-attention a missing token is missing among the queries too: it is zero before tokens are convolved. With
// other queries than keys (N != M) the key mask says nothing about the queries.
TEST(Reference, MissingTokensAreZeroBeforeAConvolutionOverTokens) {
  for (Index N : {5, 6}) {
    Sample s = sample("softmax+conv1d(3,axis=token)", {1, 1, N, 5, 2, 2});
    s.key_mask = Tensor(DType::u8, {1, 5});
    for (Index j = 0; j < 5; ++j) s.key_mask.set(j, j != 2);
    const Tensor y = run(s);
    for (Index d = 0; d < 2; ++d) s.q.set(2 * 2 + d, 9);
    EXPECT_EQ(run(s) == y, N == 5);
  }
}

// Computed in double and rounded once, whatever the storage.
TEST(Reference, OtherTypesAreRoundedOnce) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    Sample s = sample("softmax+bn+sh(1,2)", {1, 2, 4, 5, 3, 2});
    Sample stored = s;
    for (Tensor* x : {&stored.q, &stored.k, &stored.v}) *x = to_tensor(to_double<4>(x->view()), dtype);
    s.q = to_tensor(to_double<4>(stored.q.view()));
    s.k = to_tensor(to_double<4>(stored.k.view()));
    s.v = to_tensor(to_double<4>(stored.v.view()));
    Tensor y(dtype, {1, 2, 4, 2});
    validate(stored.call());
    reference_forward(stored.call(), {y.view(), {}, {}, {}});
    EXPECT_EQ(y, to_tensor(to_double<4>(run(s).view()), dtype)) << to_string(dtype);
  }
}

}  // namespace
}  // namespace saddle::primal
