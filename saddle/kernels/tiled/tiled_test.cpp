// What the battery's small shapes cannot show: several blocks, large and odd values, hidden NaN, few heads.
#include "saddle/kernels/tiled/tiled.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "saddle/base/parallel.hpp"
#include "saddle/base/random.hpp"
#include "saddle/primal/reference.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::kernels {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Data {
  Tensor q, k, v, dy;
  primal::Call call;

  Data(const std::string& attention, const Dims& d, DType dtype, double size = 1)
      : q(dtype, {d.B, d.H, d.N, d.D}),
        k(dtype, {d.B, d.H, d.M, d.D}),
        v(dtype, {d.B, d.H, d.M, d.E}),
        dy(dtype, {d.B, d.H, d.N, d.E}) {
    Stream stream(11, "tiled");
    for (Tensor* x : {&q, &k, &v, &dy})
      for (Index i = 0; i < x->size(); ++i) x->set(i, stream.normal());
    for (Index i = 0; i < q.size(); ++i) q.set(i, size * q.at(i));
    call.attention = primal::parse(attention);
    call.q = q.view();
    call.k = k.view();
    call.v = v.view();
  }
};

struct Results {
  Tensor y, lse, dq, dk, dv;
};

template <class Forward, class Backward>
Results run(const Data& data, Forward&& forward, Backward&& backward, bool saved) {
  const Shape &q = data.q.shape(), &v = data.v.shape();
  const DType dtype = data.q.dtype();
  Results r{Tensor(dtype, {q[0], q[1], q[2], v[3]}), Tensor(dtype, {q[0], q[1], q[2]}), Tensor(dtype, q),
            Tensor(dtype, data.k.shape()), Tensor(dtype, v)};
  forward(data.call, primal::Outputs{r.y.view(), {}, r.lse.view(), {}});
  primal::Gradients gradients;
  gradients.dy = data.dy.view();
  gradients.dq = r.dq.view();
  gradients.dk = r.dk.view();
  gradients.dv = r.dv.view();
  if (saved) {
    gradients.y = r.y.view();
    gradients.lse = r.lse.view();
  }
  backward(data.call, gradients);
  return r;
}

Results run_tiled(const Data& data, bool saved) {
  return run(
      data, [](const auto& c, const auto& o) { tiled().forward(c, o); },
      [](const auto& c, const auto& g) { tiled().backward(c, g); }, saved);
}

Results run_reference(const Data& data) {
  return run(data, primal::reference_forward, primal::reference_backward, false);
}

double difference(const Tensor& a, const Tensor& b) {
  double top = 1, off = 0;
  for (Index i = 0; i < b.size(); ++i) {
    if (a.at(i) == b.at(i)) continue;
    top = std::max(top, std::fabs(b.at(i)));
    off = std::max(off, std::isnan(a.at(i)) ? infinity : std::fabs(a.at(i) - b.at(i)));
  }
  return off / top;
}

void expect_close(const Results& a, const Results& b, double limit) {
  EXPECT_LE(difference(a.y, b.y), limit);
  EXPECT_LE(difference(a.lse, b.lse), limit);
  EXPECT_LE(difference(a.dq, b.dq), limit);
  EXPECT_LE(difference(a.dk, b.dk), limit);
  EXPECT_LE(difference(a.dv, b.dv), limit);
}

TEST(Tiled, AgreesOverManyBlocksOnEveryIsa) {
  const Isa best = best_isa();
  for (const char* attention :
       {"softmax", "softmax+causal", "softmax+window(40)", "rbf(gamma=0.1)", "softmax+sh(1,3)+causal",
        "softmax+bn(beta=0.7)", "poly(degree=2)", "softmax+global_window(9,n_global=3)"})
    for (const Dims& d : {Dims{1, 2, 197, 197, 20, 12}, Dims{1, 2, 130, 300, 16, 33}, Dims{1, 2, 131, 131, 8, 5}}) {
      for (DType dtype : {DType::f64, DType::f32}) {
        const Data data(attention, d, dtype);
        const Results expected = run_reference(data);
        for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
          if (isa > best) continue;
          setenv("SADDLE_MAX_ISA", to_string(isa), 1);
          for (bool saved : {false, true}) {
            SCOPED_TRACE(std::string(attention) + " " + to_string(isa) + (saved ? " saved" : ""));
            expect_close(run_tiled(data, saved), expected, dtype == DType::f64 ? 1e-11 : 2e-6);
          }
          unsetenv("SADDLE_MAX_ISA");
        }
      }
    }
}

// Logits up to 1e4 and beyond: rounding grows with them in float, but nothing overflows and double stays exact.
TEST(Tiled, TakesLargeLogits) {
  for (double size : {50.0, 2000.0, 1e5, 1e9, 1e12}) {
    const Data exact("softmax", {1, 1, 70, 130, 16, 16}, DType::f64, size);
    expect_close(run_tiled(exact, false), run_reference(exact), 1e-9);
    const Data rounded("softmax", {1, 1, 70, 130, 16, 16}, DType::f32, size);
    const Results results = run_tiled(rounded, true);
    for (const Tensor* x : {&results.y, &results.lse, &results.dq, &results.dk, &results.dv})
      for (Index i = 0; i < x->size(); ++i) ASSERT_TRUE(std::isfinite(x->at(i))) << size;
  }
}

// Where large scores make the backward pass run the forward pass again, gradients hold what floats can hold: hidden and
// dropped pairs included.
TEST(Tiled, KeepsGradientsOfLargeScores) {
  for (const char* attention : {"softmax", "softmax+causal", "rbf(gamma=0.1)"})
    for (const double p : {0.0, 0.2}) {
      SCOPED_TRACE(std::string(attention) + (p > 0 ? ", dropped" : ""));
      const Dims dims{1, 2, 70, 130, 16, 16};
      Data data(attention, dims, DType::f32, 10), exact(attention, dims, DType::f64, 10);
      for (auto [from, to] :
           {std::pair{&data.q, &exact.q}, {&data.k, &exact.k}, {&data.v, &exact.v}, {&data.dy, &exact.dy}})
        for (Index i = 0; i < to->size(); ++i) to->set(i, from->at(i));
      data.call.dropout.p = exact.call.dropout.p = p;
      expect_close(run_tiled(data, true), run_reference(exact), 4e-6);
    }
}

// Blocks of queries with large scores beside blocks without: each has its weights in its own way.
TEST(Tiled, MixesLargeAndSmallScores) {
  const Index N = 150, small = 60;
  Data data("softmax+causal", {1, 2, N, N, 16, 16}, DType::f32),
      exact("softmax+causal", {1, 2, N, N, 16, 16}, DType::f64);
  for (Index i = 0; i < data.q.size(); ++i)
    if (i / 16 % N >= small) data.q.set(i, 10 * data.q.at(i));
  for (auto [from, to] :
       {std::pair{&data.q, &exact.q}, {&data.k, &exact.k}, {&data.v, &exact.v}, {&data.dy, &exact.dy}})
    for (Index i = 0; i < to->size(); ++i) to->set(i, from->at(i));
  data.call.dropout.p = exact.call.dropout.p = 0.2;
  const Results results = run_tiled(data, true);
  EXPECT_LT(results.lse.at(small - 1), 16);
  EXPECT_GT(results.lse.at(N - 1), 16);
  expect_close(results, run_reference(exact), 4e-6);
}

// One query far from all others must not decide about its neighbours' gradients.
TEST(Tiled, AFarQueryLeavesItsBlockAlone) {
  Data data("rbf(gamma=0.5)+causal", {1, 1, 64, 64, 4, 4}, DType::f32);
  data.q.set(0, 3000);
  data.k.set(0, 3000);
  const Results ours = run_tiled(data, true), expected = run_reference(data);
  for (Index i = 4; i < data.q.size(); ++i) ASSERT_NEAR(ours.dq.at(i), expected.dq.at(i), 1e-4) << i;
}

// What a query sees and is not a number makes its weights, and the gradients that pass through them, not numbers.
TEST(Tiled, NanIsNotTakenForNothing) {
  for (DType dtype : {DType::f32, DType::f64}) {
    Data data("softmax", {1, 1, 5, 40, 4, 4}, dtype);
    data.k.set(7 * 4, std::nan(""));
    const Results results = run_tiled(data, false);
    EXPECT_TRUE(std::isnan(results.y.at(0)));
    EXPECT_TRUE(std::isnan(results.dv.at(0)));
  }
}

// Fixed normalisers do not bound the weights: where they overflow the gradients say so.
TEST(Tiled, OverflowOfAFixedNormaliserShows) {
  for (const auto& [dtype, size] : {std::pair{DType::f32, 300.0}, {DType::f64, 1e4}}) {
    Data data("softmax(scale=1)+one", {1, 1, 4, 8, 4, 4}, dtype);
    for (Index c = 0; c < 4; ++c) {
      data.q.set(c, c == 0 ? size : 0);
      data.k.set(c, c == 0 ? 1 : 0);
    }
    const Results results = run_tiled(data, false);
    EXPECT_FALSE(std::isfinite(results.y.at(0)));
    EXPECT_FALSE(std::isfinite(results.dq.at(0)));
    EXPECT_FALSE(std::isfinite(results.dv.at(0)));
  }
}

TEST(Tiled, TakesEqualHugeAndTinyValues) {
  for (double value : {0.0, 1e-40, 2.0}) {
    Data data("softmax", {1, 1, 3, 200, 4, 4}, DType::f32);
    for (Index i = 0; i < data.k.size(); ++i) data.k.set(i, value);
    for (Index i = 0; i < data.q.size(); ++i) data.q.set(i, value);
    expect_close(run_tiled(data, false), run_reference(data), 2e-6);
  }
  Data data("softmax", {1, 1, 70, 130, 4, 4}, DType::f32);
  for (Index c = 0; c < 4; ++c) data.k.set(100 * 4 + c, 1e4);  // one key takes or leaves everything
  expect_close(run_tiled(data, false), run_reference(data), 2e-6);
}

// What a query does not see must not reach it, whatever it holds; what it sees does.
TEST(Tiled, KeepsHiddenNanAndInfinityAway) {
  for (double poison : {std::nan(""), infinity}) {
    Data data("softmax+causal", {1, 1, 100, 100, 8, 8}, DType::f32);
    const Results clean = run_tiled(data, false);
    for (Index j = 70; j < 100; ++j)
      for (Index c = 0; c < 8; ++c) {
        data.k.set(j * 8 + c, poison);
        data.v.set(j * 8 + c, poison);
      }
    const Results results = run_tiled(data, false);
    for (Index i = 0; i < 70; ++i)
      for (Index c = 0; c < 8; ++c) ASSERT_EQ(results.y.at(i * 8 + c), clean.y.at(i * 8 + c)) << i;
    EXPECT_TRUE(std::isnan(results.y.at(99 * 8)));
  }
}

// A single head is cut into ranges of keys; the bits must not depend on who computes them.
TEST(Tiled, CutsFewHeadsIntoRanges) {
  for (const char* attention : {"softmax", "softmax+causal", "rbf(gamma=0.1)"}) {
    const Data data(attention, {1, 1, 700, 2100, 16, 16}, DType::f32);
    set_threads(1);
    const Results once = run_tiled(data, true);
    set_threads(5);
    const Results again = run_tiled(data, true);
    set_threads(0);
    EXPECT_EQ(once.dq, again.dq);
    EXPECT_EQ(once.dk, again.dk);
    EXPECT_EQ(once.dv, again.dv);
    expect_close(once, run_reference(data), 2e-6);
  }
}

// q, k and v out of a fused projection [B,N,3,H,D], and their gradients into another, give the bits of dense tensors:
// many heads and one, widths with and without room for whole vectors, every weight kept and some dropped.
TEST(Tiled, TakesFusedProjections) {
  struct Case {
    Index B, H, N, D;
  };
  for (const auto& [B, H, N, D] :
       {Case{8, 4, 70, 64}, {1, 1, 300, 16}, {2, 2, 97, 12}, {1, 3, 40, 16}, {2, 8, 70, 8}, {1, 2, 70, 5}})
    for (const double p : {0.0, 0.2}) {
      Data dense("softmax", {B, H, N, N, D, D}, DType::f32), strided = dense;
      Tensor fused(DType::f32, {B, N, 3, H, D}), gradient = fused;
      const auto part_of = [&](const Tensor& tensor, Index part) {
        return TensorView{static_cast<float*>(tensor.view().data) + part * H * D,
                          DType::f32,
                          {B, H, N, D},
                          {N * 3 * H * D, D, 3 * H * D, 1}};
      };
      const auto copy = [&](const TensorView& from, const TensorView& to) {
        for (Index b = 0; b < B; ++b)
          for (Index h = 0; h < H; ++h)
            for (Index n = 0; n < N; ++n)
              for (Index c = 0; c < D; ++c) {
                const auto at = [&](const Shape& s) { return b * s[0] + h * s[1] + n * s[2] + c * s[3]; };
                store(to, at(to.stride), load(from, at(from.stride)));
              }
      };
      copy(dense.call.q, strided.call.q = part_of(fused, 0));
      copy(dense.call.k, strided.call.k = part_of(fused, 1));
      copy(dense.call.v, strided.call.v = part_of(fused, 2));
      dense.call.dropout.p = strided.call.dropout.p = p;
      const Results expected = run_tiled(dense, true);

      Tensor y(DType::f32, expected.y.shape()), lse(DType::f32, expected.lse.shape()), own = y;
      tiled().forward(strided.call, {y.view(), {}, lse.view(), {}});
      EXPECT_EQ(y, expected.y);
      EXPECT_EQ(lse, expected.lse);
      primal::Gradients gradients;
      gradients.dy = dense.dy.view();
      gradients.y = y.view();
      gradients.lse = lse.view();
      gradients.dq = part_of(gradient, 0);
      gradients.dk = part_of(gradient, 1);
      gradients.dv = part_of(gradient, 2);
      tiled().backward(strided.call, gradients);
      Index part = 0;
      for (const Tensor* x : {&expected.dq, &expected.dk, &expected.dv}) {
        copy(part_of(gradient, part++), own.view());
        EXPECT_EQ(own, *x) << "part " << part << " of (" << B << ',' << H << ',' << N << ',' << D << "), p " << p;
      }
    }
}

// Saved outputs that are coarser than the call would spoil the gradients: they are computed again.
TEST(Tiled, IgnoresCoarseSavedOutputs) {
  const Data data("softmax", {1, 1, 65, 65, 16, 16}, DType::f64);
  const Results expected = run_reference(data);
  for (DType y_type : {DType::bf16, DType::f32, DType::f64})
    for (DType lse_type : {DType::bf16, DType::f32, DType::f64}) {
      Tensor y(y_type, expected.y.shape()), lse(lse_type, expected.lse.shape()), dq(DType::f64, data.q.shape());
      for (Index i = 0; i < y.size(); ++i) y.set(i, expected.y.at(i));
      for (Index i = 0; i < lse.size(); ++i) lse.set(i, expected.lse.at(i));
      primal::Gradients gradients;
      gradients.dy = data.dy.view();
      gradients.dq = dq.view();
      gradients.y = y.view();
      gradients.lse = lse.view();
      tiled().backward(data.call, gradients);
      EXPECT_LE(difference(dq, expected.dq), 1e-11);
    }
}

}  // namespace
}  // namespace saddle::kernels
