#include "saddle/primal/cost.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "saddle/primal/head.hpp"
#include "saddle/primal/testing_internal.hpp"

namespace saddle::primal {
namespace {

using namespace testing;

double multiply_adds(const std::string& text, const Dims& dims, Form form = Form::dual, Pass pass = Pass::forward) {
  return attention_cost(parse(text), dims, form, pass).multiply_adds;
}

double layer_multiply_adds(const std::string& text, const Dims& dims, Index X) {
  return layer_cost(parse(text), dims, X, Form::dual, Pass::forward).multiply_adds;
}

// The ratios of the specification of BN and SH section 6: mean of 1/f_s.
TEST(Cost, AttentionCoreRatios) {
  const auto ratio = [](const std::string& text, Index H) {
    const Dims dims{1, H, 1024, 1024, 16, 16};
    return multiply_adds(text, dims) / multiply_adds("softmax", dims);
  };
  EXPECT_NEAR(ratio("softmax+sh(1,1,2,2,4,4,8,8)", 8), 0.469, 0.0005);
  EXPECT_NEAR(ratio("softmax+sh", 8), 0.469, 0.0005);
  EXPECT_NEAR(ratio("softmax+sh(1,2)", 2), 0.75, 0.0005);
  EXPECT_NEAR(ratio("softmax+sh(1,1,2,2)", 4), 0.75, 0.0005);
  EXPECT_NEAR(ratio("softmax+sh(1,1,2)", 3), 0.833, 0.0005);
}

// The whole layer with projections, 8 heads, model width 64 and 512.
TEST(Cost, LayerRatios) {
  const struct {
    Index N;
    double narrow, wide;
  } expected[] = {{256, 0.557, 0.681}, {1024, 0.498, 0.602}, {4096, 0.477, 0.522}};
  for (const auto& [N, narrow, wide] : expected)
    for (const auto& [X, ratio] : {std::pair<Index, double>{64, narrow}, {512, wide}}) {
      const Dims dims{1, 8, N, N, X / 8, X / 8};
      EXPECT_NEAR(layer_multiply_adds("softmax+sh", dims, X) / layer_multiply_adds("softmax", dims, X), ratio, 0.0005)
          << "N = " << N << ", X = " << X;
    }
}

// The formulas of the primal-dual specification section 7 and the specification of BN and SH section 6, per head.
TEST(Cost, FormulasOfTheSpecification) {
  const Dims dims{1, 1, 20, 30, 4, 5};
  const double N = 20, M = 30, D = 4, E = 5;
  EXPECT_EQ(multiply_adds("softmax", dims), N * M * (D + E));
  EXPECT_EQ(attention_cost(parse("softmax"), dims, Form::dual, Pass::forward).exps, N * M);
  EXPECT_EQ(multiply_adds("softmax+bn", dims), N * M * (D + E) + (N + M) * D);
  EXPECT_EQ(multiply_adds("softmax+conv1d(3)", dims), N * M * (D + E) + (N + M) * D * 3);
  EXPECT_EQ(multiply_adds("softmax+sh(3)", dims), N * 10 * (D + E));
  EXPECT_EQ(attention_cost(parse("softmax+sh(3)"), dims, Form::dual, Pass::forward).additions, M * (D + E));
  EXPECT_EQ(multiply_adds("softmax+bn+sh(3)", dims), N * 10 * (D + E) + (N + 10) * D);
  const double F = D;
  EXPECT_EQ(multiply_adds("linear(elu1)", dims, Form::primal), (N + M) * F * E + N * F);
  EXPECT_EQ(multiply_adds("linear(elu1)+sh(3)", dims, Form::primal), (N + 10) * F * E + N * F);
  EXPECT_EQ(multiply_adds("softmax+causal", dims), 210 * (D + E));  // 1 + 2 + .. + 20: sum of |M_i|
}

// Forward and backward without recomputation: the N x M matrix, or W and z.
TEST(Cost, Memory) {
  const Dims dims{1, 1, 20, 30, 4, 5};
  const auto memory = [&](const char* text, Form form) {
    return attention_cost(parse(text), dims, form, Pass::forward, DType::f32).memory;
  };
  EXPECT_EQ(memory("softmax", Form::dual), 4 * 20 * 30);
  EXPECT_EQ(memory("softmax+sh(3)", Form::dual), 4 * 20 * 10);
  EXPECT_EQ(memory("linear(elu1)", Form::primal), 4 * (4 * 5 + 4));
  EXPECT_EQ(attention_cost(parse("softmax"), dims, Form::dual, Pass::forward, DType::f64).memory, 8 * 20 * 30);
}

TEST(Cost, GrowsWithBatchHeadsAndTheBackwardPass) {
  const Dims one{1, 1, 9, 9, 4, 4}, many{3, 2, 9, 9, 4, 4};
  for (const char* text : {"softmax", "linear(elu1)", "softmax+bn", "rbf+window(2)"}) {
    const Cost a = attention_cost(parse(text), one, Form::dual, Pass::forward);
    const Cost b = attention_cost(parse(text), many, Form::dual, Pass::forward);
    EXPECT_EQ(b.multiply_adds, 6 * a.multiply_adds) << text;
    EXPECT_EQ(b.bytes, 6 * a.bytes) << text;
    EXPECT_EQ(b.memory, 6 * a.memory) << text;
    const Cost back = attention_cost(parse(text), one, Form::dual, Pass::backward);
    EXPECT_GT(back.multiply_adds, a.multiply_adds) << text;
    EXPECT_GT(back.bytes, a.bytes) << text;
    EXPECT_GE(back.memory, a.memory) << text;
  }
}

// primal iff F E (N+M) < N M (D+E).
TEST(Cost, FormDecision) {
  const auto form = [](const char* text, Index n) { return cheaper_form(parse(text), {1, 1, n, n, 8, 8}); };
  // F = D = E = 8: 8*8*2n < n*n*16 iff n > 8
  EXPECT_EQ(form("linear(elu1)", 8), Form::dual);
  EXPECT_EQ(form("linear(elu1)", 9), Form::primal);
  // F = C(10,2) = 45: 45*8*2n < 16 n^2 iff n > 45
  EXPECT_EQ(form("linear(taylor)", 45), Form::dual);
  EXPECT_EQ(form("linear(taylor)", 46), Form::primal);
  EXPECT_EQ(form("softmax", 100000), Form::dual);
  EXPECT_EQ(form("linear(elu1)+window(3)", 1000), Form::dual);
  EXPECT_EQ(form("linear(elu1)+bn+causal", 1000), Form::dual);
  EXPECT_EQ(form("linear(elu1)+causal", 1000), Form::primal);
}

RC_GTEST_PROP(Cost, FormDecisionFollowsTheRule, ()) {
  const auto extent = [](Index high) { return *rc::gen::inRange<Index>(1, high); };
  const Dims dims{1, 1, extent(200), extent(200), extent(20), extent(20)};
  const auto text = *rc::gen::element<std::string>("linear(elu1)", "linear(taylor)", "poly+one", "dot");
  const Attention attention = parse(text);
  const double F = static_cast<double>(*feature_count(attention.kernel, dims.D));
  const double N = static_cast<double>(dims.N), M = static_cast<double>(dims.M), D = static_cast<double>(dims.D),
               E = static_cast<double>(dims.E);
  const Form expected = F * E * (N + M) < N * M * (D + E) ? Form::primal : Form::dual;
  RC_ASSERT(cheaper_form(attention, dims) == expected);
}

TEST(Cost, AddsAndScales) {
  const Cost a{1, 2, 3, 4, 5}, sum = a + 2 * a;
  EXPECT_EQ(sum.multiply_adds, 3);
  EXPECT_EQ(sum.additions, 6);
  EXPECT_EQ(sum.exps, 9);
  EXPECT_EQ(sum.bytes, 12);
  EXPECT_EQ(sum.memory, 15);
}

}  // namespace
}  // namespace saddle::primal
