// Data at the edge of what double can hold: far from the origin, vanishing, degenerate. Never NaN, no lost digits.
#include <gtest/gtest.h>

#include "saddle/primal/features.hpp"
#include "saddle/primal/testing_internal.hpp"

namespace saddle::primal {
namespace {

using namespace testing;

void expect_finite(const Sample& s, const std::string& what) {
  const Tensor y = run(s);
  auto results = gradients(s, cotangent(y));
  results["y"] = y;
  for (const auto& [name, tensor] : results)
    for (Index i = 0; i < tensor.size(); ++i) ASSERT_TRUE(std::isfinite(tensor.at(i))) << what << ": " << name;
}

// exp(-gamma |x-y|^2) depends on differences only, so moving all tokens must not cost digits.
TEST(Extremes, RbfDoesNotMindAnOffset) {
  Sample s = sample("rbf(gamma=0.5)", {1, 2, 5, 6, 3, 2});
  for (Tensor* x : {&s.q, &s.k})  // multiples of 2^-10, so that the move below is exact
    for (Index i = 0; i < x->size(); ++i) x->set(i, std::round(x->at(i) * 1024) / 1024);
  const Tensor y = run(s);
  const auto expected = gradients(s, cotangent(y));
  for (Tensor* x : {&s.q, &s.k})
    for (Index i = 0; i < x->size(); ++i) x->set(i, x->at(i) + (1 << 24));
  EXPECT_LE(error_of(run(s), y), 1e-15);
  const auto moved = gradients(s, cotangent(y));
  for (const auto& [name, tensor] : expected) EXPECT_LE(error_of(moved.at(name), tensor), 1e-14) << name;
}

// One visible key has no variance: with eps = 0 its features tell nothing and drop out.
TEST(Extremes, NoVarianceAndNoEps) {
  expect_finite(sample("softmax+bn(scale=std,eps=0)+causal", {1, 2, 4, 4, 3, 2}), "causal");
  expect_finite(sample("rbf+bn(beta=0.5,scale=std,eps=0)", {1, 2, 4, 1, 3, 2}), "one key");
  expect_finite(sample("linear(elu1)+bn(scale=std,eps=0)+sh(9,9)", {1, 2, 4, 5, 3, 2}), "pooled to one key");
}

// elu(x)+1 underflows far below zero; where no key weighs anything the output is 0, in both forms.
TEST(Extremes, FeaturesThatUnderflow) {
  Sample s = sample("linear(elu1)+sum(den_eps=0)", {1, 1, 3, 4, 2, 2});
  for (Index i = 0; i < s.q.size(); ++i) s.q.set(i, -1000);
  expect_finite(s, "elu1");
  const Tensor y = run(s);
  for (Index i = 0; i < y.size(); ++i) EXPECT_EQ(y.at(i), 0);
  EXPECT_EQ(run(s, primal_forward), y);
  for (const auto& [name, tensor] : gradients(s, cotangent(y), primal_backward))
    for (Index i = 0; i < tensor.size(); ++i) EXPECT_EQ(tensor.at(i), 0) << name;
}

// Directions survive where squares leave the range of double.
TEST(Extremes, UnitVectorsOfAnyLength) {
  const Sample plain = sample("cosine", {1, 1, 3, 4, 3, 2});
  for (double size : {0x1p-700, 0x1p700}) {
    Sample scaled = plain;
    for (Tensor* x : {&scaled.q, &scaled.k})
      for (Index i = 0; i < x->size(); ++i) x->set(i, x->at(i) * size);
    EXPECT_LE(error_of(run(scaled), run(plain)), 1e-14) << size;
  }
}

// A kernel with too many features for the primal form still has its dual form.
TEST(Extremes, TooManyFeatures) {
  EXPECT_EQ(monomial_count(64, 100), std::numeric_limits<Index>::max());
  EXPECT_THROW(FeatureMap(Polynomial{100, 1.0}, 64), NotSupported);
  expect_finite(sample("poly(degree=20)+one", {1, 1, 3, 4, 64, 2}, 1, 0.01), "poly");
  expect_finite(sample("linear(taylor,order=20)", {1, 1, 3, 4, 64, 2}, 1, 0.1), "taylor");
}

}  // namespace
}  // namespace saddle::primal
