#include "saddle/primal/features.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <numeric>

#include "saddle/primal/testing_internal.hpp"
#include "saddle/primal/weights.hpp"

namespace saddle::primal {
namespace {

using namespace testing;

using Point = std::vector<double>;

Point point(Index D, Stream& stream, double spread = 1) {
  Point x(static_cast<std::size_t>(D));
  for (double& value : x) value = spread * stream.normal();
  return x;
}

Point features(const FeatureMap& map, const Point& x) {
  Point phi(static_cast<std::size_t>(map.size()));
  map.map(x.data(), phi.data());
  return phi;
}

double product(const Point& a, const Point& b) {
  double sum = 0;
  for (std::size_t f = 0; f < a.size(); ++f) sum += a[f] * b[f];
  return sum;
}

const std::vector<std::string> finite_kernels{"dot",
                                              "poly",
                                              "poly(degree=1,coef0=0.5)",
                                              "poly(degree=3,coef0=2)",
                                              "poly(degree=4,coef0=0)",
                                              "poly(degree=5,coef0=0.1)",
                                              "linear(elu1)",
                                              "linear(relu)",
                                              "linear(taylor,order=0)",
                                              "linear(taylor,order=1)",
                                              "linear(taylor,order=2)",
                                              "linear(taylor,order=5)",
                                              "linear(random,count=9,seed=4)"};

// kappa = Phi.Phi. Score kernels are evaluated without features, so this compares two computations.
TEST(FeatureMap, GivesTheKernel) {
  Stream stream(1, "points");
  for (const std::string& text : finite_kernels)
    for (Index D : {1, 2, 4}) {
      const Attention attention = parse(text);
      const FeatureMap map(attention.kernel, D);
      EXPECT_EQ(map.width(), D);
      EXPECT_EQ(map.size(), *feature_count(attention.kernel, D)) << text;
      const WeightRule rule(attention, D, 1, 1);
      for (int trial = 0; trial < 5; ++trial) {
        const Point x = point(D, stream), y = point(D, stream);
        const double kappa = rule.kappa(x, y);
        EXPECT_NEAR(product(features(map, x), features(map, y)), kappa, 1e-12 * (1 + std::fabs(kappa))) << text;
      }
    }
}

TEST(FeatureMap, PullbackEqualsDifferences) {
  Stream stream(2, "points");
  for (const std::string& text : finite_kernels)
    for (Index D : {1, 3}) {
      const FeatureMap map(parse(text).kernel, D);
      Point x = point(D, stream), dx(x.size(), 0.5);  // added to, not overwritten
      const Point dphi = point(map.size(), stream);
      map.pullback(x.data(), dphi.data(), dx.data());
      for (std::size_t d = 0; d < x.size(); ++d) {
        const double value = x[d], step = 1e-6;
        x[d] = value + step;
        const double above = product(features(map, x), dphi);
        x[d] = value - step;
        const double below = product(features(map, x), dphi);
        x[d] = value;
        const double slope = (above - below) / (2 * step);
        EXPECT_NEAR(dx[d] - 0.5, slope, 1e-7 * (1 + std::fabs(slope))) << text;
      }
    }
}

TEST(FeatureMap, InfiniteOnesAreRefused) {
  for (const char* text : {"softmax", "rbf"}) {
    const std::string message = message_of<NotSupported>([&] { FeatureMap(parse(text).kernel, 4); });
    EXPECT_NE(message.find(text), std::string::npos);
    EXPECT_NE(message.find("infinite"), std::string::npos);
  }
}

// The order of the golden files: D = 3, degree 2 is 200, 110, 101, 020, 011, 002.
TEST(Monomials, DegreeAscendingThenDescendingLexicographic) {
  const std::vector<std::vector<int>> expected{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {2, 0, 0},
                                               {1, 1, 0}, {1, 0, 1}, {0, 2, 0}, {0, 1, 1}, {0, 0, 2}};
  EXPECT_EQ(monomials(3, 2), expected);
  EXPECT_EQ(monomials(1, 3), (std::vector<std::vector<int>>{{0}, {1}, {2}, {3}}));
}

RC_GTEST_PROP(Monomials, AreAllOfThemInOrder, ()) {
  const auto D = *rc::gen::inRange<Index>(1, 5), degree = *rc::gen::inRange<Index>(0, 6);
  const auto all = monomials(D, degree);
  RC_ASSERT(static_cast<Index>(all.size()) == monomial_count(D, degree));
  const auto total = [](const std::vector<int>& n) { return std::accumulate(n.begin(), n.end(), 0); };
  for (std::size_t f = 0; f + 1 < all.size(); ++f) {
    const bool rises = total(all[f]) < total(all[f + 1]);
    RC_ASSERT((rises || (total(all[f]) == total(all[f + 1]) && all[f] > all[f + 1])));
  }
  RC_ASSERT(total(all.back()) == degree);
}

TEST(Monomials, CountIsABinomial) {
  EXPECT_EQ(monomial_count(64, 2), 66 * 65 / 2);
  EXPECT_EQ(monomial_count(3, 0), 1);
  EXPECT_EQ(monomial_count(3, -1), 0);
  EXPECT_EQ(monomial_count(64, 20), std::numeric_limits<Index>::max());  // saturates
  EXPECT_THROW(FeatureMap(Polynomial{20, 1.0}, 64), NotSupported);
}

// A huge degree must be answered at once, not counted up to.
TEST(Monomials, HugeDegreesAreRefused) {
  EXPECT_THROW(parse("poly(degree=4000000000)"), InvalidArgument);
  EXPECT_THROW(parse("linear(taylor,order=21)"), InvalidArgument);
}

// The weights of the Taylor map: 1/sqrt(n!) at x/D^(1/4).
TEST(Taylor, FeaturesOfTheSpecification) {
  Linear kernel;
  kernel.map = FeatureMapKind::taylor;
  kernel.order = 2;
  const Point x{0.3, -0.8};
  const Point phi = features(FeatureMap(kernel, 2), x);
  const double a = x[0] / std::pow(2, 0.25), b = x[1] / std::pow(2, 0.25);
  const Point expected{1, a, b, a * a / std::sqrt(2), a * b, b * b / std::sqrt(2)};
  ASSERT_EQ(phi.size(), expected.size());
  for (std::size_t f = 0; f < phi.size(); ++f) EXPECT_NEAR(phi[f], expected[f], 1e-15);
}

TEST(Taylor, ConvergesToTheExponential) {
  Stream stream(3, "points");
  const Point x = point(3, stream, 0.7), y = point(3, stream, 0.7);
  const double exact = std::exp(product(x, y) / std::sqrt(3.0));
  double last = INFINITY;
  for (Index order : {1, 3, 5, 7, 9}) {
    Linear kernel;
    kernel.map = FeatureMapKind::taylor;
    kernel.order = order;
    const FeatureMap map(kernel, 3);
    const double error = std::fabs(product(features(map, x), features(map, y)) - exact);
    EXPECT_LT(error, last / 5);
    last = error;
  }
  EXPECT_LT(last, 1e-8);
}

// E[phi(x).phi(y)] = exp(x.y/sqrt(D)): the mean over many seeds lies within five standard errors.
TEST(RandomFeatures, AreUnbiased) {
  Stream stream(6, "points");
  for (Index D : {1, 4}) {
    const Point x = point(D, stream, 0.6), y = point(D, stream, 0.6);
    const double exact = std::exp(product(x, y) / std::sqrt(static_cast<double>(D)));
    const int seeds = 400;
    double sum = 0, squares = 0;
    for (int seed = 0; seed < seeds; ++seed) {
      Linear kernel;
      kernel.map = FeatureMapKind::random;
      kernel.count = 50;
      kernel.seed = seed;
      const FeatureMap map(kernel, D);
      const double estimate = product(features(map, x), features(map, y));
      sum += estimate;
      squares += estimate * estimate;
    }
    const double mean = sum / seeds, variance = squares / seeds - mean * mean;
    EXPECT_GT(variance, 0);
    EXPECT_LT(std::fabs(mean - exact), 5 * std::sqrt(variance / seeds)) << D;
  }
}

// phi_r(x) = exp(w_r.x' - |x'|^2/2)/sqrt(m) with w_r from the stream "features".
TEST(RandomFeatures, FollowTheDefinition) {
  Linear kernel;
  kernel.map = FeatureMapKind::random;
  kernel.count = 3;
  kernel.seed = 11;
  const Point x{0.4, -1.2};
  const Point phi = features(FeatureMap(kernel, 2), x);
  Stream stream(11, "features");
  const double scale = std::pow(2, -0.25), square = (0.16 + 1.44) * scale * scale;
  for (double value : phi) {
    const double first = stream.normal(), second = stream.normal();
    EXPECT_NEAR(value, std::exp((first * 0.4 - second * 1.2) * scale - square / 2) / std::sqrt(3.0), 1e-14);
  }
}

}  // namespace
}  // namespace saddle::primal
