// Targets to attention.
#include "saddle/primal/fit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saddle/primal/testing_internal.hpp"

namespace saddle::primal {
namespace {

using namespace testing;
using ::testing::HasSubstr;

struct Problem {
  Matrix k, y, x;
};

Problem problem(Index M, Index D, Index E, std::uint64_t seed) {
  Stream stream(seed, "regression");
  Matrix k = random_matrix(M, D, stream), y = random_matrix(M, E, stream);
  return {std::move(k), std::move(y), random_matrix(4, D, stream)};
}

// Attention with queries x, the fit's keys and values, through the reference itself.
Matrix attend(const Fit& fit, const Matrix& x) {
  const auto lift = [](const Matrix& m) {
    Tensor tensor(DType::f64, {1, 1, m.shape()[0], m.shape()[1]});
    for (Index i = 0; i < m.size(); ++i) tensor.set(i, m.data()[i]);
    return tensor;
  };
  Sample s;
  s.attention = fit.attention;
  s.attention.bias.reset();
  s.q = lift(x);
  s.k = lift(fit.k);
  s.v = lift(fit.v);
  const Tensor y = run(s);
  Matrix result({x.shape()[0], fit.v.shape()[1]});
  for (Index i = 0; i < result.size(); ++i) result.data()[i] = y.at(i);
  return result;
}

// Property 5 of the primal-dual specification: attention built from the solution's values equals f - b, at the keys and
// elsewhere.
TEST(Fit, AttentionReproducesTheRegression) {
  for (const char* text : {"softmax", "softmax(scale=0.4)", "rbf", "dot", "poly", "linear(elu1)", "linear(taylor)",
                           "softmax+one", "rbf+constant(2)", "linear(elu1)+one", "softmax+bn", "rbf+bn(scale=std)",
                           "softmax+bn(stats=subset,scale=std)", "linear(elu1)+l2", "softmax+conv1d(3)"})
    for (bool bias : {false, true}) {
      const Problem p = problem(9, 3, 2, 5);
      SvrOptions options{1000, 0.05};
      options.bias = bias;
      const Fit fit = fit_attention(parse(text), p.k, p.y, options);
      ASSERT_TRUE(fit.solution.converged()) << text;
      EXPECT_EQ(fit.attention.bias.has_value(), bias);
      const auto check = [&](const Matrix& x, const Matrix& f, const char* where) {
        const Matrix attention = attend(fit, x);
        for (Index i = 0; i < f.shape()[0]; ++i)
          for (Index e = 0; e < 2; ++e)
            EXPECT_NEAR(attention(i, e), f(i, e) - fit.solution.b(e), 1e-8) << text << ", " << where;
      };
      check(p.k, fit.solution.f, "keys");
      check(p.x, fit.predict(p.x), "elsewhere");
    }
}

// Property 7: no bound in force (C far above every multiplier), eps = 0, positive definite Gram matrix: f(k_j) = y_j.
TEST(Fit, InterpolatesWithoutSlack) {
  for (const char* text : {"softmax", "rbf", "softmax+one", "rbf+one", "softmax+bn", "linear(random,count=40)"}) {
    const Problem p = problem(6, 4, 2, 6);
    const Fit fit = fit_attention(parse(text), p.k, p.y, {1e6, 0});
    ASSERT_TRUE(fit.solution.converged()) << text;
    for (Index j = 0; j < 6; ++j)
      for (Index e = 0; e < 2; ++e) EXPECT_NEAR(fit.solution.f(j, e), p.y(j, e), 1e-6) << text;
  }
}

// Strictly inside the tube a multiplier is 0, and so is the value: such a key takes no part in the attention.
TEST(Fit, KeysInsideTheTubeHaveNoValue) {
  const Problem p = problem(12, 2, 1, 7);
  const SvrOptions options{100, 0.8};
  const Fit fit = fit_attention(parse("rbf+one"), p.k, p.y, options);
  ASSERT_TRUE(fit.solution.converged());
  int inside = 0;
  for (Index j = 0; j < 12; ++j) {
    if (std::fabs(fit.solution.f(j, 0) - p.y(j, 0)) > options.epsilon - 1e-6) continue;
    ++inside;
    EXPECT_EQ(fit.v(j, 0), 0);
  }
  EXPECT_GT(inside, 0);
  EXPECT_LT(inside, 12);
}

TEST(Fit, NormaliserAtNewPoints) {
  const Problem p = problem(5, 2, 1, 8);
  const Fit fit = fit_attention(parse("softmax+bn(stats=subset)"), p.k, p.y, {10, 0.1});
  const Vector at_keys = fit.normaliser(p.k);
  for (Index j = 0; j < 5; ++j) EXPECT_NEAR(at_keys(j), fit.set.h(j), 1e-12);
  EXPECT_EQ(fit.normaliser(p.x).size(), 4);
}

TEST(Fit, RefusesWhatIsNoTable) {
  const Problem p = problem(5, 2, 1, 9);
  EXPECT_THROW(fit_attention(parse("softmax+causal"), p.k, p.y, {}), NotSupported);
  EXPECT_THROW(fit_attention(parse("softmax+sh(2)"), p.k, p.y, {}), NotSupported);
  EXPECT_THAT(message_of([&] { fit_attention(parse("softmax"), p.x, p.y, {}); }), HasSubstr("(4,2)"));
  EXPECT_THROW(fit_attention(parse("softmax"), Matrix({0, 2}), Matrix({0, 1}), {}), InvalidArgument);
  const Fit fit = fit_attention(parse("softmax"), p.k, p.y, {});
  EXPECT_THAT(message_of([&] { fit.predict(Matrix({1, 3})); }), HasSubstr("the fit has 2 inputs"));
}

// A table has no neighbours and no skip.
TEST(Fit, RefusesWhatATableDoesNotBring) {
  const Problem p = problem(6, 2, 1, 9);
  for (const char* text : {"softmax+residual", "softmax+conv1d(3,axis=token)", "rbf+conv2d(3x3,axis=token)"})
    EXPECT_THROW(fit_attention(parse(text), p.k, p.y, {}), NotSupported) << text;
}

// A grid of 20 features over 4 columns must not be written.
TEST(Fit, ValidatesTheCall) {
  const Problem p = problem(6, 4, 1, 9);
  const Attention wrong = parse("rbf+conv2d(3x3,grid=4x5)");
  EXPECT_THAT(message_of([&] { fit_attention(wrong, p.k, p.y, {}); }), HasSubstr("[rbf+conv2d(3x3,grid=4x5)]"));
  EXPECT_THROW(fit_attention(parse("rbf"), p.k, Matrix({6, 0}), {}), InvalidArgument);
  Fit fit = fit_attention(parse("rbf+conv2d(3x3,grid=2x2)"), p.k, p.y, {});
  EXPECT_THAT(message_of([&] { fit.normaliser(Matrix({1, 3})); }), HasSubstr("the fit has 4 inputs"));
  fit.attention = wrong;
  EXPECT_THROW(fit.predict(p.x), InvalidArgument);
  EXPECT_THROW(fit.normaliser(p.x), InvalidArgument);
}

// A row sum that could vanish is judged by the data: h is looked at, at every key.
TEST(Fit, TakesARowSumThatDoesNotVanishOnTheData) {
  Problem p = problem(6, 2, 1, 9);
  Attention attention = parse("poly");
  attention.normaliser = RowSum{0.0};
  const Fit fit = fit_attention(attention, p.k, p.y, {10, 0.1});
  EXPECT_TRUE(fit.solution.converged());
  EXPECT_EQ(fit.predict(p.x).shape(), (std::array<Index, 2>{4, 1}));
  EXPECT_EQ(fit.normaliser(p.x).size(), 4);
  attention.kernel = Dot{};
  for (Index d = 0; d < 2; ++d) p.k(0, d) = 0;
  EXPECT_THAT(message_of([&] { fit_attention(attention, p.k, p.y, {}); }), HasSubstr("the normaliser h is 0 at key 0"));
}

}  // namespace
}  // namespace saddle::primal
