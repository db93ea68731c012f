#include "saddle/primal/kernel.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "saddle/primal/normaliser.hpp"
#include "saddle/primal/testing_internal.hpp"
#include "saddle/primal/weights.hpp"

namespace saddle::primal {
namespace {

using namespace testing;

double dot(const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0;
  for (std::size_t d = 0; d < x.size(); ++d) sum += x[d] * y[d];
  return sum;
}

std::vector<double> point(Index D, std::uint64_t seed) {
  Stream stream(seed, "point");
  std::vector<double> x(static_cast<std::size_t>(D));
  for (double& value : x) value = stream.normal();
  return x;
}

double kappa(const Kernel& kernel, const std::vector<double>& x, const std::vector<double>& y) {
  Attention attention;
  attention.kernel = kernel;
  attention.normaliser = default_normaliser(kernel);
  return WeightRule(attention, static_cast<Index>(x.size()), 1, 1).kappa(x, y);
}

Linear linear(FeatureMapKind map, Index order = 2) {
  Linear kernel;
  kernel.map = map;
  kernel.order = order;
  return kernel;
}

double elu1(double x) { return x > 0 ? x + 1 : std::exp(x); }

// Each kernel against its definition in the specification.
TEST(Kernel, Definitions) {
  for (Index D : {1, 2, 5}) {
    const auto x = point(D, 1), y = point(D, 2);
    const double s = dot(x, y), root = std::sqrt(static_cast<double>(D));
    double square = 0, elu = 0, relu = 0;
    for (std::size_t d = 0; d < x.size(); ++d) {
      square += (x[d] - y[d]) * (x[d] - y[d]);
      elu += elu1(x[d]) * elu1(y[d]);
      relu += std::max(x[d], 0.0) * std::max(y[d], 0.0);
    }
    EXPECT_NEAR(kappa(ExpDot{}, x, y), std::exp(s / root), 1e-14 * std::exp(s / root));
    EXPECT_NEAR(kappa(ExpDot{0.3}, x, y), std::exp(0.3 * s), 1e-13);
    EXPECT_NEAR(kappa(Rbf{}, x, y), std::exp(-square / (2 * root)), 1e-14);
    EXPECT_NEAR(kappa(Rbf{0.7}, x, y), std::exp(-0.7 * square), 1e-14);
    EXPECT_NEAR(kappa(Dot{}, x, y), s, 1e-14);
    EXPECT_NEAR(kappa(Polynomial{}, x, y), (s + 1) * (s + 1), 1e-12);
    EXPECT_NEAR(kappa(Polynomial{3, 0.5}, x, y), (s + 0.5) * (s + 0.5) * (s + 0.5), 1e-12);
    EXPECT_NEAR(kappa(linear(FeatureMapKind::elu1), x, y), elu, 1e-13);
    EXPECT_NEAR(kappa(linear(FeatureMapKind::relu), x, y), relu, 1e-13);
    const double t = s / root;
    EXPECT_NEAR(kappa(linear(FeatureMapKind::taylor, 3), x, y), 1 + t + t * t / 2 + t * t * t / 6, 1e-13);
    EXPECT_NEAR(kappa(linear(FeatureMapKind::taylor, 0), x, y), 1, 1e-15);
  }
}

TEST(Kernel, DerivativesOfTheScore) {
  const std::vector<Kernel> kernels{ExpDot{},
                                    Rbf{0.5},
                                    Dot{},
                                    Polynomial{1, 0.3},
                                    Polynomial{4, 0.3},
                                    linear(FeatureMapKind::taylor, 0),
                                    linear(FeatureMapKind::taylor, 1),
                                    linear(FeatureMapKind::taylor, 5)};
  for (const Kernel& kernel : kernels) {
    const ScoreForm form = *score_form(kernel, 3);
    for (double s : {-1.3, 0.0, 0.4, 2.1}) {
      const double step = 1e-6, slope = (form.g(s + step) - form.g(s - step)) / (2 * step);
      EXPECT_NEAR(form.derivative(s), slope, 1e-8 * (1 + std::fabs(slope))) << name_of(kernel) << " at " << s;
    }
  }
}

TEST(Kernel, ScoreFormsAndFeatures) {
  EXPECT_FALSE(score_form(linear(FeatureMapKind::elu1), 3));
  EXPECT_FALSE(score_form(linear(FeatureMapKind::relu), 3));
  EXPECT_FALSE(score_form(linear(FeatureMapKind::random), 3));
  EXPECT_TRUE(score_form(ExpDot{}, 3)->exponential);
  EXPECT_TRUE(score_form(Rbf{}, 3)->exponential);
  EXPECT_FALSE(score_form(Polynomial{}, 3)->exponential);
  EXPECT_FALSE(feature_count(ExpDot{}, 3));
  EXPECT_FALSE(feature_count(Rbf{}, 3));
  EXPECT_EQ(feature_count(Dot{}, 3), 3);
  EXPECT_EQ(feature_count(Polynomial{2, 1}, 3), 10);  // C(5,2)
  EXPECT_EQ(feature_count(Polynomial{2, 0}, 3), 6);   // only the monomials of degree 2
  EXPECT_EQ(feature_count(linear(FeatureMapKind::elu1), 3), 3);
  EXPECT_EQ(feature_count(linear(FeatureMapKind::taylor, 4), 3), 35);  // C(7,4)
  EXPECT_EQ(feature_count(linear(FeatureMapKind::random), 3), 256);
}

// The claimed sign holds on samples, and a kernel that is said to vanish or change sign does so somewhere.
TEST(Kernel, Signs) {
  const std::vector<Kernel> kernels{ExpDot{},
                                    Rbf{},
                                    Dot{},
                                    Polynomial{2, 1},
                                    Polynomial{3, 1},
                                    Polynomial{4, 0},
                                    linear(FeatureMapKind::elu1),
                                    linear(FeatureMapKind::relu),
                                    linear(FeatureMapKind::random),
                                    linear(FeatureMapKind::taylor, 0),
                                    linear(FeatureMapKind::taylor, 1),
                                    linear(FeatureMapKind::taylor, 2),
                                    linear(FeatureMapKind::taylor, 3),
                                    linear(FeatureMapKind::taylor, 4)};
  for (const Kernel& kernel : kernels) {
    double least = INFINITY;
    for (double x = -6; x <= 6; x += 0.5)
      for (double y = -6; y <= 6; y += 0.5) least = std::min(least, kappa(kernel, {x}, {y}));
    switch (sign_of(kernel)) {
      case Sign::positive: EXPECT_GT(least, 0) << name_of(kernel); break;
      case Sign::vanishing: EXPECT_EQ(least, 0) << name_of(kernel); break;
      case Sign::changing: EXPECT_LT(least, 0) << name_of(kernel); break;
    }
  }
}

TEST(Normaliser, Defaults) {
  EXPECT_EQ(default_normaliser(ExpDot{}), Normaliser(RowSum{}));
  EXPECT_EQ(default_normaliser(linear(FeatureMapKind::taylor, 3)), Normaliser(RowSum{}));
  EXPECT_EQ(default_normaliser(Dot{}), Normaliser(One{}));
  EXPECT_EQ(default_normaliser(Polynomial{3, 1}), Normaliser(One{}));
  EXPECT_EQ(default_normaliser(Polynomial{2, 1}), Normaliser(RowSum{}));
  EXPECT_EQ(den_eps_of(RowSum{}, ExpDot{}), 0);
  EXPECT_EQ(den_eps_of(RowSum{}, Rbf{}), 0);
  EXPECT_EQ(den_eps_of(RowSum{}, Linear{}), 1e-6);
  EXPECT_EQ(den_eps_of(RowSum{0.5}, ExpDot{}), 0.5);
}

TEST(Normaliser, ValuesThatDoNotDependOnTheData) {
  EXPECT_EQ(normaliser_rule(One{}, ExpDot{}, 3, 4).fixed, 1);
  EXPECT_EQ(normaliser_rule(Constant{-2}, ExpDot{}, 3, 4).fixed, -2);
  EXPECT_NEAR(normaliser_rule(SqrtLength{}, Linear{}, 9, 9).fixed, 3, 1e-15);  // sqrt(L), the LRA code
  EXPECT_TRUE(normaliser_rule(RowSum{}, Linear{}, 3, 4).row_sum);
}

Attention rows(const std::string& text) { return parse(text); }

// Scores far from 0 neither overflow nor lose the row: weights are those of the shifted scores, log h is exact.
TEST(WeightRule, ScoresFarFromZero) {
  const WeightRule rule(rows("softmax(scale=1)"), 1, 1, 2);
  const Matrix k = [] {
    Matrix m({2, 1});
    m(0, 0) = 1;
    m(1, 0) = 1.001;
    return m;
  }();
  const std::vector<std::uint8_t> visible{1, 1};
  std::vector<double> weights(2);
  for (double q : {1000.0, -1000.0}) {
    const std::vector<double> query{q};
    const double log_h = rule.row(query, k, visible, weights);
    EXPECT_NEAR(weights[0], 1 / (1 + std::exp(q * 0.001)), 1e-12);
    EXPECT_NEAR(weights[0] + weights[1], 1, 1e-15);
    EXPECT_NEAR(log_h, q + std::log1p(std::exp(q * 0.001)), 1e-9);
  }
}

// With den_eps a row of very small scores is all den_eps: weights 0 and log h = log(den_eps), not infinity.
TEST(WeightRule, DenEpsWithVerySmallScores) {
  const WeightRule rule(rows("softmax(scale=1)+sum(den_eps=0.001)"), 1, 1, 1);
  Matrix k({1, 1});
  k(0, 0) = 1;
  const std::vector<std::uint8_t> visible{1};
  std::vector<double> weights(1);
  for (double q : {-900.0, -2.0, 3.0, 900.0}) {
    const std::vector<double> query{q};
    const double log_h = rule.row(query, k, visible, weights);
    const double expected = q > 0 ? q + std::log1p(0.001 * std::exp(-q)) : std::log(0.001 + std::exp(q));
    EXPECT_NEAR(log_h, expected, 1e-12 * (1 + std::fabs(q))) << q;
    EXPECT_NEAR(weights[0], std::exp(q - expected), 1e-12) << q;
  }
}

TEST(WeightRule, HiddenKeysGetExactlyZeroAndEmptyRowsSayMinusInfinity) {
  Stream stream(5, "rows");
  const Matrix k = random_matrix(3, 2, stream);
  const std::vector<double> q{0.3, -0.4};
  for (const char* text : {"softmax", "rbf+one", "linear(elu1)", "poly+sum(den_eps=1)", "dot"}) {
    const WeightRule rule(rows(text), 2, 1, 3);
    std::vector<double> weights(3, 7);
    EXPECT_GT(rule.row(q, k, std::vector<std::uint8_t>{1, 0, 1}, weights), -INFINITY) << text;
    EXPECT_EQ(weights[1], 0) << text;
    EXPECT_EQ(rule.row(q, k, std::vector<std::uint8_t>{0, 0, 0}, weights), -INFINITY) << text;
    EXPECT_EQ(weights, std::vector<double>(3, 0.0)) << text;
  }
}

}  // namespace
}  // namespace saddle::primal
