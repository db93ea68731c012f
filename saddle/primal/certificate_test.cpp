// Attention to regression and back.
#include "saddle/primal/certificate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saddle/primal/testing_internal.hpp"

namespace saddle::primal {
namespace {

using namespace testing;
using ::testing::Contains;
using ::testing::HasSubstr;

std::string describe(const std::string& text, const Certificate& c) {
  std::ostringstream out;
  out << text << ": gap " << c.gap << ", kkt " << c.kkt << ", resolved " << c.resolved << ", fit " << c.fit
      << ", solve gap " << c.solve_gap << ", solve kkt " << c.solve_kkt << ", forms " << c.primal_dual
      << ", truncation " << c.truncation;
  return out.str();
}

// Every kernel with every normaliser it may have, and a transform and a key set in turn.
TEST(Certificate, HoldsForEveryKernelNormaliserTransformAndKeySet) {
  const std::vector<std::string> kernels{"softmax",
                                         "softmax(scale=0.3)",
                                         "rbf",
                                         "rbf(gamma=0.4)",
                                         "dot",
                                         "poly",
                                         "poly(degree=3)",
                                         "linear(elu1)",
                                         "linear(relu)",
                                         "linear(taylor)",
                                         "linear(taylor,order=3)",
                                         "linear(random,count=12)"};
  const std::vector<std::string> normalisers{"", "+one", "+constant(-2.5)", "+sqrt_length", "+sum(den_eps=0.5)"};
  const std::vector<std::string> transforms{"", "+bn", "+bn(beta=0.6,scale=std)", "+l2", "+conv1d(3)", "+conv2d(3x1)"};
  const std::vector<std::string> keys{"",       "+causal",       "+window(2)", "+strided(2)",
                                      "+sh(2)", "+sh(2)+causal", "+bias",      "+residual"};
  std::size_t turn = 0;
  for (const std::string& kernel : kernels)
    for (const std::string& normaliser : normalisers) {
      const std::string text = kernel + normaliser + transforms[turn % transforms.size()] + keys[turn % keys.size()];
      ++turn;
      const Sample s = sample(text, {1, 1, 7, 7, 3, 2}, turn, 0.7);
      const Certificate c = certify(s.call(), turn);
      EXPECT_TRUE(c.holds()) << describe(text, c);
      EXPECT_GT(c.set.indices.size(), 0u);
      EXPECT_EQ(c.taylor_order >= 0, !feature_count(s.attention.kernel, 3).has_value()) << text;
    }
}

// The certificate notices when the layer is not what it claims: holds() is no constant.
TEST(Certificate, FailsWhenANumberIsWrong) {
  const Sample s = sample("linear(elu1)", {1, 1, 5, 5, 3, 2});
  const Certificate good = certify(s.call());
  ASSERT_TRUE(good.holds());
  for (double Certificate::*number :
       {&Certificate::gap, &Certificate::kkt, &Certificate::solve_gap, &Certificate::solve_kkt, &Certificate::resolved,
        &Certificate::fit, &Certificate::primal_dual}) {
    Certificate bad = good;
    bad.*number = 1e-3;
    EXPECT_FALSE(bad.holds());
    bad.*number = std::nan("");
    EXPECT_FALSE(bad.holds());
  }
}

// The regression of a query: its visible keys after transforms, h and the Gram matrix from the definitions.
TEST(Certificate, TrainingSetOfAQuery) {
  Sample s = sample("softmax+causal", {1, 2, 5, 5, 3, 2});
  const TrainingSet set = training_set(s.call(), 0, 1, 2);
  EXPECT_EQ(set.indices, (std::vector<Index>{0, 1, 2}));
  EXPECT_FALSE(set.shared);
  const auto kappa = [&](Index a, Index b) {
    double sum = 0;
    for (Index d = 0; d < 3; ++d) sum += s.k.at((5 + a) * 3 + d) * s.k.at((5 + b) * 3 + d);
    return std::exp(sum / std::sqrt(3.0));
  };
  for (Index j = 0; j < 3; ++j) {
    EXPECT_NEAR(set.h(j), kappa(j, 0) + kappa(j, 1) + kappa(j, 2), 1e-12);
    for (Index e = 0; e < 2; ++e) EXPECT_EQ(set.values(j, e), s.v.at((5 + j) * 2 + e));
    for (Index l = 0; l < 3; ++l) EXPECT_NEAR(set.gram(j, l), kappa(j, l) / (set.h(j) * set.h(l)), 1e-12);
  }
  EXPECT_TRUE(training_set(sample("softmax", {1, 1, 4, 4, 2, 2}).call(), 0, 0, 1).shared);
}

TEST(Certificate, SaysWhatItAssumed) {
  const auto notes = [](const std::string& text) { return certify(sample(text, {1, 1, 6, 6, 2, 2}).call(), 3).notes; };
  EXPECT_THAT(notes("linear(elu1)"), ::testing::IsEmpty());
  EXPECT_THAT(notes("softmax+window(1)"), Contains(HasSubstr("shared by all queries")));
  EXPECT_THAT(notes("softmax"), Contains(HasSubstr("Taylor features")));
  EXPECT_THAT(notes("linear(elu1)+bias"), Contains(HasSubstr("b is held fixed")));
  EXPECT_THAT(notes("linear(elu1)+residual"), Contains(HasSubstr("y - r(x)")));
}

TEST(Certificate, NeedsAQueryThatSeesSomething) {
  Sample s = sample("softmax", {1, 1, 3, 4, 2, 2});
  s.key_mask = Tensor(DType::u8, {1, 4});
  EXPECT_THAT(message_of([&] { certify(s.call()); }), HasSubstr("no query sees any key"));
  const Sample empty = sample("softmax", {1, 1, 0, 4, 2, 2});
  EXPECT_THAT(message_of([&] { certify(empty.call()); }), HasSubstr("no query sees any key"));
}

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

// Property 5 of primal-dual.md: attention built from the solution's values equals f - b, at the keys and elsewhere.
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

}  // namespace
}  // namespace saddle::primal
