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
  Certificate unsolved = good;
  unsolved.converged = false;
  EXPECT_FALSE(unsolved.holds());
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

// NaN is no small number: where the kernel overflows the solver has nothing to solve, and nothing is certified.
TEST(Certificate, DoesNotHoldWithoutASolution) {
  for (const auto& [text, spread] : {std::pair{"softmax(scale=1000)+one", 3.0}, {"dot", 1e200}}) {
    const Certificate c = certify(sample(text, {1, 1, 8, 8, 4, 2}, 1, spread).call());
    EXPECT_FALSE(c.converged);
    EXPECT_FALSE(c.holds()) << describe(text, c);
    for (double number : {c.gap, c.kkt, c.resolved, c.solve_gap, c.solve_kkt, c.fit})
      EXPECT_TRUE(std::isnan(number)) << describe(text, c);
    EXPECT_THAT(c.notes, Contains(HasSubstr("not finite")));
  }
}

// Far from the origin the Taylor features of rbf are of no use, and the certificate says that it left them out.
TEST(Certificate, HoldsFarFromTheOriginOnlyIfSolved) {
  Sample s = sample("rbf(gamma=0.5)+one", {1, 1, 8, 8, 4, 2});
  for (Tensor* tensor : {&s.q, &s.k})
    for (Index i = 0; i < tensor->size(); ++i) tensor->set(i, tensor->at(i) + 1e8);
  const Certificate c = certify(s.call());
  EXPECT_EQ(c.holds(), c.converged) << describe("rbf far from the origin", c);
  EXPECT_FALSE(c.compares_forms());
  EXPECT_THAT(c.notes, Contains(HasSubstr("leaves")));
}

TEST(Certificate, ReportsThatAKernelWithoutARangeComparesNothing) {
  const Certificate c = certify(sample("rbf(gamma=1e5)", {1, 1, 8, 8, 4, 2}).call());
  EXPECT_TRUE(std::isnan(c.truncation)) << c.truncation;
  EXPECT_FALSE(c.compares_forms());
  EXPECT_THAT(c.notes, Contains(HasSubstr("range of double precision")));
  // One key out of range among others is below notice.
  Sample s = sample("rbf", {1, 1, 3, 3, 2, 2}, 4, 0.3);
  for (Index d = 0; d < 2; ++d) s.k.set(d, 1e3);
  const Certificate far = certify(s.call());
  EXPECT_LT(far.truncation, 1e-12);
  EXPECT_TRUE(far.holds()) << describe("rbf with a far key", far);
}

// Kernels of any size, with values of any size: what is judged does not depend on either.
TEST(Certificate, IsFreeOfScale) {
  for (const char* text : {"poly(degree=9)", "softmax(scale=2)+one", "dot", "linear(elu1)+constant(1e9)", "rbf"})
    for (double values : {1e-9, 1.0, 1e9})
      for (std::uint64_t seed : {1, 2}) {
        Sample s = sample(text, {1, 2, 8, 8, 4, 4}, seed);
        for (Index i = 0; i < s.v.size(); ++i) s.v.set(i, values * s.v.at(i));
        const Certificate c = certify(s.call(), seed);
        EXPECT_TRUE(c.holds()) << describe(text, c) << ", values " << values << ", seed " << seed;
      }
}

// Values whose terms cancel leave a fit of rounding errors, which is as good as zero.
TEST(Certificate, HoldsWhereTheFitCancels) {
  for (double value : {0.0, 1e6}) {
    Sample s = sample("softmax", {1, 1, 4, 4, 2, 1});
    for (Index d = 0; d < 2; ++d) {
      s.k.set(2 + d, s.k.at(d));
      s.k.set(6 + d, s.k.at(4 + d));
    }
    for (Index j = 0; j < 4; ++j) s.v.set(j, j % 2 == 0 ? value : -value);
    const Certificate c = certify(s.call());
    EXPECT_TRUE(c.holds()) << describe("softmax with pairs", c);
  }
}

// Multipliers h v that span more digits than there are: no verdict in favour, and a reason.
TEST(Certificate, SaysWhenTheRegressionIsBeyondDoublePrecision) {
  const Certificate c = certify(sample("softmax(scale=5)", {1, 2, 8, 8, 4, 4}, 1, 1.5).call());
  EXPECT_FALSE(c.holds()) << describe("softmax(scale=5)", c);
  EXPECT_THAT(c.notes, Contains(HasSubstr("beyond double precision")));
}

// Every query sees itself alone, and its statistics move it to the origin.
TEST(Certificate, NeedsAGramMatrixThatIsNotZero) {
  Sample s = sample("dot+bn(stats=subset)+window(0)", {1, 1, 4, 4, 2, 2});
  s.parameters.clear();
  EXPECT_THAT(message_of([&] { certify(s.call()); }), HasSubstr("the Gram matrix is zero"));
  Sample causal = sample("dot+bn(stats=subset)+causal", {1, 1, 2, 2, 2, 2});  // the second query sees two keys
  causal.parameters.clear();
  EXPECT_EQ(certify(causal.call()).set.query, 1);
}

}  // namespace
}  // namespace saddle::primal
