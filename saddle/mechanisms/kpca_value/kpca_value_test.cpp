// Values by kernel PCA: that they do what they are made for, and what the measures say of them.
#include "saddle/mechanisms/kpca_value/kpca_value.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"

namespace saddle::mechanisms::kpca_value {
namespace {

Matrix normal(Index rows, Index columns, std::uint64_t seed, double scale = 1) {
  Matrix x({rows, columns});
  Stream stream(seed, "kpca_value");
  for (double& number : x) number = scale * stream.normal();
  return x;
}

double largest_difference(const Matrix& a, const Matrix& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double largest = 0;
  for (Index i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a.data()[i] - b.data()[i]));
  return largest;
}

double inner(const Matrix& a, const Matrix& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

// Central differences of f at x, against a gradient.
template <class F>
void expect_gradient(F f, const Matrix& x, const Matrix& gradient) {
  const double step = 1e-5;
  for (Index i = 0; i < x.size(); ++i) {
    Matrix up = x, down = x;
    up.data()[i] += step;
    down.data()[i] -= step;
    EXPECT_NEAR(gradient.data()[i], (f(up) - f(down)) / (2 * step), 1e-7) << i;
  }
}

TEST(KpcaValue, AttentionWithTheseValuesProjectsOnTheAxes) {
  const Matrix k = normal(11, 4, 1), q = normal(5, 4, 2);
  const Gram keys = gram(k);
  for (const Normalisation normalisation : {Normalisation::unit, Normalisation::kpca}) {
    const Axes formula = axes(keys, 6, normalisation);
    const Matrix h = attention(q, k, formula.values);
    EXPECT_LT(largest_difference(h, projections(q, k, keys, formula.coefficients)), 1e-12);
    for (Index d = 1; d < 6; ++d) EXPECT_GE(formula.lambda(d - 1), formula.lambda(d));
    for (Index d = 0; d < 6; ++d) EXPECT_NEAR(formula.lambda(d) * 11, formula.eigenvalues(d), 1e-15);
  }
  const Axes formula = axes(keys, 6, Normalisation::kpca);
  const Vector errors = reconstruction_errors(squared_norms(q, k), attention(q, k, formula.values));
  for (const double error : errors) EXPECT_GE(error, 0);
}

TEST(KpcaValue, AxesHaveLengthOneAndTheSignThatIsPromised) {
  const Gram keys = gram(normal(9, 3, 3));
  const Axes formula = axes(keys, 5, Normalisation::kpca);
  for (Index d = 0; d < 5; ++d) {
    for (Index e = 0; e < 5; ++e) {
      double product = 0;
      for (Index i = 0; i < 9; ++i)
        for (Index j = 0; j < 9; ++j)
          product += formula.coefficients(i, d) * keys.centred(i, j) * formula.coefficients(j, e);
      EXPECT_NEAR(product, d == e ? 1 : 0, 1e-9);
    }
    double largest = 0;
    for (Index i = 0; i < 9; ++i)
      if (std::fabs(formula.coefficients(i, d)) > std::fabs(largest)) largest = formula.coefficients(i, d);
    EXPECT_GT(largest, 0);
  }
}

TEST(KpcaValue, GradientOfTheCentredGramMatrix) {
  const Matrix k = normal(6, 3, 4), cotangent = normal(6, 6, 5);
  expect_gradient([&](const Matrix& at) { return inner(gram(at).centred, cotangent); }, k, gram_gradient(k, cotangent));
}

TEST(KpcaValue, GradientOfStandardisedRows) {
  const Matrix x = normal(3, 5, 6), cotangent = normal(3, 5, 7);
  for (const double eps : {0.0, 0.25})
    expect_gradient([&](const Matrix& at) { return inner(standardised(at, eps), cotangent); }, x,
                    standardised_gradient(x, cotangent, eps));
}

TEST(KpcaValue, TheFormulaAgreesWithItself) {
  const Matrix k = normal(12, 4, 8, 0.3);
  const Axes formula = axes(gram(k), 4, Normalisation::kpca);
  const Agreement own = agreement(k, formula.values);
  for (Index d = 0; d < 4; ++d) {
    EXPECT_LT(own.absolute[d].mean, 1e-8);
    EXPECT_LT(own.absolute[d].deviation, 1e-8);
  }
  EXPECT_NEAR(own.linear_cka, 1, 1e-6);
  EXPECT_NEAR(own.cosine, 1, 1e-6);
  EXPECT_NEAR(own.matched_cosine, 1, 1e-6);
  const Matrix constant = gamma(gram(k), formula.values);
  for (Index j = 0; j < 12; ++j) EXPECT_NEAR(constant(j, 2), formula.lambda(2), 1e-9);

  const Agreement other = agreement(k, normal(12, 4, 9));
  EXPECT_GT(other.absolute[0].mean, 1e-3);
  EXPECT_GT(other.relative[0].mean, 0.1);
  EXPECT_LT(other.linear_cka, 0.9);
  EXPECT_GE(other.matched_cosine, other.cosine);
}

TEST(KpcaValue, LargeKeysDoNotOverflow) {
  const Matrix k = normal(8, 4, 10, 40);  // exp of their products is beyond double
  const Gram keys = gram(k);
  for (const double number : keys.scaled) EXPECT_TRUE(std::isfinite(number));
  for (const double number : axes(keys, 8, Normalisation::unit).values) EXPECT_TRUE(std::isfinite(number));
  for (const double number : gamma(keys, normal(8, 2, 11))) EXPECT_TRUE(std::isfinite(number));
}

TEST(KpcaValue, CkaForgetsTurnsAndScales) {
  const Matrix x = normal(10, 2, 12);
  Matrix turned({10, 2});
  for (Index i = 0; i < 10; ++i) {
    turned(i, 0) = 3 * (0.6 * x(i, 0) - 0.8 * x(i, 1)) + 5;
    turned(i, 1) = 3 * (0.8 * x(i, 0) + 0.6 * x(i, 1)) - 1;
  }
  EXPECT_NEAR(linear_cka(x, turned), 1, 1e-9);
  EXPECT_LT(linear_cka(x, normal(10, 2, 13)), 0.9);
}

TEST(KpcaValue, MatchingIsTheBestOfAll) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Index N = 1 + static_cast<Index>(seed % 5), M = N + static_cast<Index>(seed % 3);
    const Matrix scores = normal(N, M, 100 + seed);
    std::vector<Index> columns(static_cast<std::size_t>(M));
    std::iota(columns.begin(), columns.end(), Index{0});
    double best = -1e9;
    do {
      double sum = 0;
      for (Index i = 0; i < N; ++i) sum += scores(i, columns[i]);
      best = std::max(best, sum);
    } while (std::next_permutation(columns.begin(), columns.end()));
    const Matching matching = best_matching(scores);
    double sum = 0;
    for (Index i = 0; i < N; ++i) sum += scores(i, matching.column[i]);
    EXPECT_NEAR(sum, best, 1e-12);
    EXPECT_NEAR(matching.mean * static_cast<double>(N), best, 1e-12);
    std::vector<Index> taken = matching.column;
    std::sort(taken.begin(), taken.end());
    EXPECT_EQ(std::adjacent_find(taken.begin(), taken.end()), taken.end());
  }
}

TEST(KpcaValue, RefusesWhatHasNoAnswer) {
  const Matrix k = normal(5, 3, 14);
  const Gram keys = gram(k);
  EXPECT_THROW(axes(keys, 0, Normalisation::unit), InvalidArgument);
  EXPECT_THROW(axes(keys, 6, Normalisation::unit), InvalidArgument);
  EXPECT_THROW(axes(keys, 5, Normalisation::kpca), InvalidArgument);                       // the fifth eigenvalue is 0
  EXPECT_THROW(axes(gram(Matrix({4, 3}, 1.0)), 1, Normalisation::kpca), InvalidArgument);  // all keys are one
  EXPECT_THROW(gram(Matrix({0, 3})), InvalidArgument);
  EXPECT_THROW(gram_gradient(k, Matrix({5, 4})), InvalidArgument);
  EXPECT_THROW(standardised(Matrix({2, 1})), InvalidArgument);
  EXPECT_THROW(attention(normal(2, 4, 1), k, k), InvalidArgument);
  EXPECT_THROW(attention(k, k, normal(4, 2, 1)), InvalidArgument);
  EXPECT_THROW(gamma(keys, normal(4, 2, 1)), InvalidArgument);
  EXPECT_THROW(linear_cka(k, normal(4, 3, 1)), InvalidArgument);
  EXPECT_THROW(row_cosines(k, normal(5, 2, 1)), InvalidArgument);
  EXPECT_THROW(best_matching(normal(3, 2, 1)), InvalidArgument);
  EXPECT_THROW(best_matching(Matrix({1, 1}, std::nan(""))), InvalidArgument);
}

TEST(KpcaValue, IsNoAttentionThatCouldBeComputed) {
  EXPECT_EQ(find("kpca-value").name, "kpca_value");
  EXPECT_EQ(find_layer("kpca_value"), nullptr);
  EXPECT_THROW(parse("kpca_value"), InvalidArgument);
}

}  // namespace
}  // namespace saddle::mechanisms::kpca_value
