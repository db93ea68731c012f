#include "saddle/primal/transform.hpp"

#include <gtest/gtest.h>

#include "saddle/primal/testing_internal.hpp"

namespace saddle::primal {
namespace {

using namespace testing;

using Keep = std::vector<std::uint8_t>;

Tokens random_tokens(Index n, Index M, Index D, std::uint64_t seed = 1) {
  Stream stream(seed, "tokens");
  Matrix q = random_matrix(n, D, stream);
  return {std::move(q), random_matrix(M, D, stream)};
}

std::vector<double> random_theta(std::size_t size, std::uint64_t seed = 2) {
  Stream stream(seed, "theta");
  std::vector<double> theta(size);
  for (double& value : theta) value = stream.normal();
  return theta;
}

template <class P>
Tokens applied(const P& part, Tokens tokens, const Kept& kept, const std::vector<double>& theta) {
  part.apply(tokens, kept, theta);
  return tokens;
}

double inner(const Matrix& a, const Matrix& b) {
  double sum = 0;
  for (Index i = 0; i < a.size(); ++i) sum += a.data()[i] * b.data()[i];
  return sum;
}

// Pullback against central differences, with respect to q, k and theta.
template <class P>
void check_pullback(const P& part, const Kept& kept, std::size_t parameters, Index n, Index M, Index D,
                    const std::string& what) {
  Tokens x = random_tokens(n, M, D);
  auto theta = random_theta(parameters);
  const Tokens cotangent = random_tokens(n, M, D, 7);
  const auto value = [&] {
    const Tokens y = applied(part, x, kept, theta);
    return inner(y.q, cotangent.q) + inner(y.k, cotangent.k);
  };
  Tokens gradient = cotangent;
  std::vector<double> dtheta(parameters, 0.25);  // added to, not overwritten
  part.pullback(x, kept, theta, gradient, dtheta);
  const auto compare = [&](double& entry, double exact, const char* name) {
    const double before = entry, step = 1e-6;
    entry = before + step;
    const double above = value();
    entry = before - step;
    const double below = value();
    entry = before;
    EXPECT_NEAR(exact, (above - below) / (2 * step), 1e-6 * (1 + std::fabs(exact))) << what << ", " << name;
  };
  for (Index i = 0; i < x.q.size(); ++i) compare(x.q.data()[i], gradient.q.data()[i], "q");
  for (Index i = 0; i < x.k.size(); ++i) compare(x.k.data()[i], gradient.k.data()[i], "k");
  for (std::size_t t = 0; t < parameters; ++t) compare(theta[t], dtheta[t] - 0.25, "theta");
}

const Keep all_kept(6, 1), holes{1, 0, 1, 1, 0, 1}, none(6, 0);

TEST(Transform, PullbacksEqualDifferences) {
  for (const auto& [keep, name] : {std::pair{&all_kept, "all kept"}, {&holes, "holes"}, {&none, "none kept"}}) {
    const Kept kept{*keep, {}}, self{*keep, *keep};
    check_pullback(BatchNorm{}, kept, 1, 3, 6, 4, std::string("bn, ") + name);
    check_pullback(BatchNorm{1, ScaleMode::std}, kept, 1, 3, 6, 4, std::string("bn std, ") + name);
    check_pullback(L2{}, kept, 0, 3, 6, 4, std::string("l2, ") + name);
    check_pullback(Conv1d{3}, kept, 3, 3, 6, 4, std::string("conv1d, ") + name);
    check_pullback(Conv1d{7}, kept, 7, 3, 6, 4, std::string("conv1d wider than D, ") + name);
    check_pullback(Conv1d{3, Axis::token}, kept, 3, 4, 6, 2, std::string("conv1d token, ") + name);
    check_pullback(Conv1d{5, Axis::token}, self, 5, 6, 6, 2, std::string("conv1d token self, ") + name);
    check_pullback(Conv2d{{3, 3}, {}}, kept, 9, 3, 6, 6, std::string("conv2d, ") + name);
    check_pullback(Conv2d{{1, 3}, {3, 2}}, kept, 3, 3, 6, 6, std::string("conv2d 1x3, ") + name);
    check_pullback(Conv2d{{3, 3}, {2, 3}, Axis::token}, self, 9, 6, 6, 2, std::string("conv2d token, ") + name);
  }
}

// (x - beta mu)/sqrt(var + eps) with the mean and the biased variance of the kept keys, around the true mean.
TEST(BatchNorm, FormulaOfTheSpecification) {
  for (const Keep* keep : {&all_kept, &holes})
    for (double beta : {1.0, 0.6, 0.0})
      for (ScaleMode mode : {ScaleMode::none, ScaleMode::std}) {
        const Tokens x = random_tokens(3, 6, 2);
        const double eps = 0.01;
        const Tokens y = applied(BatchNorm{1, mode, eps}, x, {*keep, {}}, {beta});
        for (Index d = 0; d < 2; ++d) {
          double n = 0, mean = 0, variance = 0;
          for (Index j = 0; j < 6; ++j) n += (*keep)[j];
          for (Index j = 0; j < 6; ++j) mean += (*keep)[j] * x.k(j, d) / n;
          for (Index j = 0; j < 6; ++j) variance += (*keep)[j] * std::pow(x.k(j, d) - mean, 2) / n;
          const double s = mode == ScaleMode::std ? std::sqrt(variance + eps) : 1;
          for (Index i = 0; i < 3; ++i) EXPECT_NEAR(y.q(i, d), (x.q(i, d) - beta * mean) / s, 1e-13);
          for (Index j = 0; j < 6; ++j) EXPECT_NEAR(y.k(j, d), (x.k(j, d) - beta * mean) / s, 1e-13);
        }
      }
}

TEST(BatchNorm, WithoutKeysDoesNothing) {
  const Tokens x = random_tokens(2, 6, 3);
  const Tokens y = applied(BatchNorm{1, ScaleMode::std}, x, {none, {}}, {0.7});
  EXPECT_EQ(y.q, x.q);
  EXPECT_EQ(y.k, x.k);
}

TEST(L2, GivesUnitVectorsAndKeepsZero) {
  Tokens x = random_tokens(2, 3, 4);
  for (Index d = 0; d < 4; ++d) x.k(1, d) = 0;
  const Keep keep(3, 1);
  const Tokens y = applied(L2{}, x, {keep, {}}, {});
  for (Index i = 0; i < 2; ++i) {
    double square = 0;
    for (Index d = 0; d < 4; ++d) square += y.q(i, d) * y.q(i, d);
    EXPECT_NEAR(square, 1, 1e-14);
    EXPECT_NEAR(y.q(i, 0) * x.q(i, 1), y.q(i, 1) * x.q(i, 0), 1e-14);  // same direction
  }
  for (Index d = 0; d < 4; ++d) EXPECT_EQ(y.k(1, d), 0);
  Tokens gradient = random_tokens(2, 3, 4, 3);
  std::span<double> no_parameters;
  L2{}.pullback(x, {keep, {}}, {}, gradient, no_parameters);
  for (Index d = 0; d < 4; ++d) EXPECT_EQ(gradient.k(1, d), 0);
}

// (conv x)(d) = sum_f c_f x(d + f - P), zero outside, no flip.
TEST(Conv1d, OverFeatures) {
  const Tokens x = random_tokens(2, 6, 5);
  const auto c = random_theta(3);
  const Tokens y = applied(Conv1d{3}, x, {holes, {}}, c);
  for (Index i = 0; i < 2; ++i)
    for (Index d = 0; d < 5; ++d) {
      double sum = 0;
      for (Index f = 0; f < 3; ++f)
        if (d + f - 1 >= 0 && d + f - 1 < 5) sum += c[f] * x.q(i, d + f - 1);
      EXPECT_NEAR(y.q(i, d), sum, 1e-14);
    }
}

// The same along the tokens, each feature apart; missing tokens count as zero.
TEST(Conv1d, OverTokens) {
  const Tokens x = random_tokens(6, 6, 2);
  const auto c = random_theta(5);
  const Tokens y = applied(Conv1d{5, Axis::token}, x, {holes, holes}, c);
  const Tokens cross = applied(Conv1d{5, Axis::token}, x, {holes, {}}, c);  // queries are other tokens, none is missing
  for (Index i = 0; i < 6; ++i)
    for (Index d = 0; d < 2; ++d) {
      double masked_q = 0, masked_k = 0, whole_q = 0;
      for (Index f = 0; f < 5; ++f) {
        const Index j = i + f - 2;
        if (j < 0 || j >= 6) continue;
        masked_q += c[f] * holes[j] * x.q(j, d);
        masked_k += c[f] * holes[j] * x.k(j, d);
        whole_q += c[f] * x.q(j, d);
      }
      EXPECT_NEAR(y.q(i, d), masked_q, 1e-14);
      EXPECT_NEAR(y.k(i, d), masked_k, 1e-14);
      EXPECT_NEAR(cross.q(i, d), whole_q, 1e-14);
    }
}

TEST(Conv2d, OverAGridOfFeatures) {
  const Tokens x = random_tokens(2, 6, 6);
  const auto c = random_theta(9);
  const Tokens y = applied(Conv2d{{3, 3}, {2, 3}}, x, {all_kept, {}}, c);
  for (Index r = 0; r < 2; ++r)
    for (Index column = 0; column < 3; ++column) {
      double sum = 0;
      for (Index a = -1; a <= 1; ++a)
        for (Index b = -1; b <= 1; ++b)
          if (r + a >= 0 && r + a < 2 && column + b >= 0 && column + b < 3)
            sum += c[(a + 1) * 3 + b + 1] * x.q(1, (r + a) * 3 + column + b);
      EXPECT_NEAR(y.q(1, r * 3 + column), sum, 1e-14);
    }
}

// Over a grid of tokens each feature is an image of its own.
TEST(Conv2d, OverAGridOfTokens) {
  const Tokens x = random_tokens(6, 6, 2);
  const auto c = random_theta(9);
  const Tokens y = applied(Conv2d{{3, 3}, {2, 3}, Axis::token}, x, {holes, holes}, c);
  for (Index r = 0; r < 2; ++r)
    for (Index column = 0; column < 3; ++column)
      for (Index d = 0; d < 2; ++d) {
        double sum = 0;
        for (Index a = -1; a <= 1; ++a)
          for (Index b = -1; b <= 1; ++b) {
            const Index j = (r + a) * 3 + column + b;
            if (r + a >= 0 && r + a < 2 && column + b >= 0 && column + b < 3)
              sum += c[(a + 1) * 3 + b + 1] * holes[j] * x.k(j, d);
          }
        EXPECT_NEAR(y.k(r * 3 + column, d), sum, 1e-14);
      }
}

TEST(Conv, InitialKernelIsTheUnitImpulse) {
  EXPECT_EQ(Conv1d{5}.initial(), (std::vector<double>{0, 0, 1, 0, 0}));
  EXPECT_EQ((Conv2d{{3, 1}, {}}.initial()), (std::vector<double>{0, 1, 0}));
  const Tokens x = random_tokens(2, 6, 6);
  for (const Tokens& y : {applied(Conv1d{3}, x, {all_kept, {}}, Conv1d{3}.initial()),
                          applied(Conv2d{{3, 3}, {}}, x, {all_kept, {}}, Conv2d{{3, 3}, {}}.initial())}) {
    EXPECT_EQ(y.q, x.q);
    EXPECT_EQ(y.k, x.k);
  }
}

TEST(Transform, OnlyTokenConvolutionsMixTokens) {
  EXPECT_TRUE(mixes_tokens(Conv1d{3, Axis::token}));
  EXPECT_TRUE(mixes_tokens(Conv2d{{3, 3}, {}, Axis::token}));
  for (const Transform& other : {Transform(Conv1d{}), Transform(Conv2d{}), Transform(L2{}), Transform(BatchNorm{})})
    EXPECT_FALSE(mixes_tokens(other));
}

TEST(Transform, MostSquareGrid) {
  EXPECT_EQ(most_square_grid(12), (Grid{3, 4}));
  EXPECT_EQ(most_square_grid(16), (Grid{4, 4}));
  EXPECT_EQ(most_square_grid(7), (Grid{1, 7}));
  EXPECT_EQ(most_square_grid(1), (Grid{1, 1}));
  EXPECT_EQ(most_square_grid(0).size(), 0);
  for (Index n = 1; n < 200; ++n) EXPECT_EQ(most_square_grid(n).size(), n);
}

}  // namespace
}  // namespace saddle::primal
