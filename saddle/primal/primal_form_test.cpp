#include "saddle/primal/primal_form.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saddle/primal/testing_internal.hpp"

namespace saddle::primal {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const double* row(const Tensor& tensor, Index i) {
  return static_cast<const double*>(tensor.view().data) + i * tensor.shape()[3];
}

// A decoder: append key i, read query i. Step by step this is causal attention.
TEST(PrimalState, DecodesCausalAttention) {
  for (const char* text : {"linear(elu1)+causal", "linear(taylor)+causal", "linear(relu)+sum(den_eps=0.1)+causal",
                           "poly+one+causal", "dot+constant(3)+causal", "linear(random,count=6)+causal"}) {
    const Index n = 7, D = 3, E = 2;
    const Sample s = sample(text, {1, 1, n, n, D, E});
    const Tensor expected = run(s);
    PrimalState state(s.attention, D, E);
    EXPECT_TRUE(state.empty());
    std::vector<double> y(E, 5);
    EXPECT_EQ(state.read(row(s.q, 0), y.data()), 0);
    EXPECT_THAT(y, ElementsAre(0, 0));  // nothing seen yet
    for (Index i = 0; i < n; ++i) {
      state.append(row(s.k, i), row(s.v, i));
      state.read(row(s.q, i), y.data());
      for (Index e = 0; e < E; ++e) EXPECT_NEAR(y[e], expected.at(i * E + e), 1e-12) << text << ", step " << i;
    }
    EXPECT_FALSE(state.empty());
  }
}

// A decoder may stop at any step and go on in a copy of its sums: here W and z are those of the specification.
TEST(PrimalState, HoldsWAndZ) {
  const Sample s = sample("linear(elu1)", {1, 1, 1, 4, 3, 2});
  PrimalState state(s.attention, 3, 2);
  Matrix w({2, 3});
  Vector z({3});
  std::vector<double> phi(3);
  for (Index j = 0; j < 4; ++j) {
    state.append(row(s.k, j), row(s.v, j));
    for (Index d = 0; d < 3; ++d) {
      const double x = row(s.k, j)[d];
      phi[d] = x > 0 ? x + 1 : std::exp(x);
      z(d) += phi[d];
      for (Index e = 0; e < 2; ++e) w(e, d) += row(s.v, j)[e] * phi[d];
    }
  }
  for (Index d = 0; d < 3; ++d) {
    EXPECT_NEAR(state.z()(d), z(d), 1e-13);
    for (Index e = 0; e < 2; ++e) EXPECT_NEAR(state.w()(e, d), w(e, d), 1e-13);
  }
  double h = 1e-6;
  for (Index d = 0; d < 3; ++d) h += phi[d] * z(d);
  EXPECT_NEAR(state.normaliser(phi.data()), h, 1e-13);
  EXPECT_TRUE(state.row_sum());
}

// h is what the dual form reports as log-sum-exp.
TEST(PrimalForm, LogOfTheRowSum) {
  Sample s = sample("linear(elu1)+causal", {2, 2, 5, 6, 3, 2});
  add_key_mask(s, true);
  const Call call = s.call();
  Tensor y(DType::f64, {2, 2, 5, 2}), dual(DType::f64, {2, 2, 5}), primal(DType::f64, {2, 2, 5});
  reference_forward(call, {y.view(), {}, dual.view(), {}});
  primal_forward(call, {y.view(), {}, primal.view(), {}});
  bool empty = false;
  for (Index i = 0; i < dual.size(); ++i) {
    empty |= std::isinf(dual.at(i));
    EXPECT_TRUE(dual.at(i) == primal.at(i) || std::fabs(dual.at(i) - primal.at(i)) < 1e-12);
  }
  EXPECT_TRUE(empty);  // the sample without keys
}

// out.w and out.z of the golden cases: all existing keys of each head, after pooling and transforms.
TEST(PrimalForm, WeightsOfEveryHead) {
  Sample s = sample("linear(elu1)+sh(1,2)", {2, 2, 3, 5, 3, 2});
  add_key_mask(s);
  const PrimalWeights weights = primal_weights(s.call());
  EXPECT_EQ(weights.w.shape(), (std::array<Index, 4>{2, 2, 2, 3}));
  EXPECT_EQ(weights.z.shape(), (std::array<Index, 3>{2, 2, 3}));
  const Tensor y = run(s);
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < 2; ++h)
      for (Index i = 0; i < 3; ++i) {
        const double* q = row(s.q, (b * 2 + h) * 3 + i);
        std::vector<double> phi(3);
        FeatureMap(s.attention.kernel, 3).map(q, phi.data());
        double denominator = 1e-6;
        for (Index f = 0; f < 3; ++f) denominator += weights.z(b, h, f) * phi[f];
        for (Index e = 0; e < 2; ++e) {
          double sum = 0;
          for (Index f = 0; f < 3; ++f) sum += weights.w(b, h, e, f) * phi[f];
          EXPECT_NEAR(sum / denominator, y.at(((b * 2 + h) * 3 + i) * 2 + e), 1e-12);
        }
      }
  EXPECT_THROW(primal_weights(sample("softmax", {1, 1, 2, 2, 2, 2}).call()), NotSupported);
}

TEST(PrimalForm, RefusalsNameTheReason) {
  const auto refusals = [](const char* text, bool mask = false) { return primal_form_refusals(parse(text), mask); };
  for (const char* text : {"linear(elu1)", "linear(taylor)+causal", "dot+l2", "poly+one+padding", "linear+bn+sh(1,2)",
                           "linear(relu)+sh(1,2)+causal", "linear+conv1d(3)+bias+residual"})
    EXPECT_THAT(refusals(text), IsEmpty()) << text;
  EXPECT_THAT(refusals("softmax"), ElementsAre(HasSubstr("'softmax' is infinite")));
  EXPECT_THAT(refusals("rbf"), ElementsAre(HasSubstr("'rbf' is infinite")));
  EXPECT_THAT(refusals("linear+window(3)"), ElementsAre(HasSubstr("'window' differs between queries")));
  EXPECT_THAT(refusals("linear+local(3)+strided(2)"),
              ElementsAre(HasSubstr("'local' differs"), HasSubstr("'strided' differs")));
  EXPECT_THAT(refusals("linear", true), ElementsAre(HasSubstr("every query its own W")));
  EXPECT_THAT(refusals("linear+bn+causal"), ElementsAre(HasSubstr("per-query statistics")));
  EXPECT_THAT(refusals("softmax+bn+causal+window(1)", true).size(), 4u);
  EXPECT_THROW(PrimalState(parse("softmax"), 3, 2), NotSupported);
}

}  // namespace
}  // namespace saddle::primal
