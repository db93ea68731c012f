#include "saddle/analysis/causal_discovery/independence.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "saddle/analysis/causal_discovery/correlation.hpp"
#include "saddle/analysis/causal_discovery/partial_correlation_internal.hpp"
#include "saddle/analysis/causal_discovery/subset_search_internal.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"

namespace saddle::analysis::causal_discovery {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

Matrix random_correlation(Index n, Index samples, std::uint64_t seed) {
  Stream stream(seed, "correlation");
  Matrix mix({n, n}), x({samples, n});
  for (double& each : mix) each = stream.normal();
  for (Index s = 0; s < samples; ++s) {
    std::vector<double> source(static_cast<std::size_t>(n));
    for (double& each : source) each = stream.normal();
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < n; ++j) x(s, i) += mix(i, j) * source[static_cast<std::size_t>(j)];
  }
  return correlation(x);
}

// Residuals of x and y after least squares on z have the partial correlation.
TEST(FisherZ, IsTheCorrelationOfResiduals) {
  const Matrix R = random_correlation(3, 200, 1);
  const double xy = R(0, 1), xz = R(0, 2), yz = R(1, 2);
  const double partial = (xy - xz * yz) / std::sqrt((1 - xz * xz) * (1 - yz * yz));
  const FisherZ test(R, 200);
  const Nodes z{2};
  EXPECT_NEAR(test.p_value(0, 1, z), std::erfc(std::sqrt(196.0) * std::fabs(std::atanh(partial)) / std::sqrt(2.0)),
              1e-14);
}

TEST(FisherZ, OrderOfTheConditionsDoesNotMatter) {
  const FisherZ test(random_correlation(6, 60, 2), 60);
  const double p = test.p_value(0, 1, Nodes{2, 3, 4, 5});
  EXPECT_NEAR(test.p_value(1, 0, Nodes{5, 3, 2, 4}), p, 1e-12);
}

TEST(FisherZ, Extremes) {
  Matrix R({3, 3}, 0.0);
  for (Index i = 0; i < 3; ++i) R(i, i) = 1;
  R(0, 1) = R(1, 0) = 1;
  const FisherZ test(R, 5);
  EXPECT_EQ(test.p_value(0, 1, {}), 0);        // the same variable twice
  EXPECT_EQ(test.p_value(0, 2, Nodes{1}), 0);  // nothing is left of x
  EXPECT_EQ(test.p_value(0, 2, {}), 1);        // no correlation
  EXPECT_EQ(FisherZ(R, 4).p_value(1, 2, {}), 1);
  EXPECT_EQ(FisherZ(R, 4).p_value(0.5, 1), 1);
  EXPECT_TRUE(std::isnan(FisherZ(R, 4).p_value(0.5, 2)));  // too few samples
}

TEST(FisherZ, RefusesTooFewSamples) {
  const Matrix R({2, 2}, 1.0);
  // As published: given n - 3 variables everything is independent, given more nothing is.
  EXPECT_EQ(FisherZ(R, 3, LargeSets::published).p_value(0.5, 0), 1);
  EXPECT_TRUE(std::isnan(FisherZ(R, 2, LargeSets::published).p_value(0.5, 0)));
  for (const double samples : {-4.0, 1.0, 2.0, 3.0, 3.9})
    EXPECT_THAT([&] { FisherZ(R, samples); }, ThrowsMessage<InvalidArgument>(HasSubstr("needs 4 or more"))) << samples;
}

TEST(FisherZ, RefusesWhatIsNoCorrelation) {
  Matrix R({2, 2}, 1.0);
  EXPECT_NO_THROW(FisherZ(R, 10));
  EXPECT_THROW(FisherZ(Matrix({2, 3}), 10), InvalidArgument);
  EXPECT_THROW(FisherZ(Matrix(), 10), InvalidArgument);
  EXPECT_THROW(FisherZ(R, 0), InvalidArgument);
  EXPECT_THROW(FisherZ(R, NAN), InvalidArgument);
  R(0, 1) = 0.5;
  EXPECT_THAT([&] { FisherZ(R, 10); }, ThrowsMessage<InvalidArgument>(HasSubstr("1 and 0")));
  R(1, 0) = 0.5;
  R(1, 1) = 2;
  EXPECT_THROW(FisherZ(R, 10), InvalidArgument);
  R(1, 1) = NAN;
  EXPECT_THROW(FisherZ(R, 10), InvalidArgument);
}

// The search works on factors that sets share; one test at a time uses the inverse.
TEST(Residuals, AgreeWithTheInverse) {
  const FisherZ test(random_correlation(9, 300, 3), 300);
  const Nodes pool{1, 3, 4, 6, 8};
  Residuals shared(test, 0, 7, pool, 3);
  for (Index i = 0; i < 5; ++i) {
    shared.condition(0, i);
    for (Index j = i + 1; j < 5; ++j) {
      shared.condition(1, j);
      for (Index k = j + 1; k < 5; ++k) {
        const auto at = [&](Index l) { return pool[static_cast<std::size_t>(l)]; };
        EXPECT_NEAR(shared.p_value(2, k), test.p_value(0, 7, Nodes{at(i), at(j), at(k)}), 1e-11);
      }
    }
  }
}

// Two copies of one variable leave no variance: the search decides as a single test does.
TEST(Residuals, NearlySingularSetsGoToTheInverse) {
  Matrix R = random_correlation(5, 100, 4);
  for (Index i = 0; i < 5; ++i) R(i, 4) = R(4, i) = R(i, 3);
  R(4, 4) = 1;
  R(3, 4) = R(4, 3) = 1 - 1e-12;
  const FisherZ test(R, 100);
  Residuals shared(test, 0, 1, {2, 3, 4}, 3);
  shared.condition(0, 0);
  shared.condition(1, 1);
  EXPECT_EQ(shared.p_value(2, 2), test.p_value(0, 1, Nodes{2, 3, 4}));
}

TEST(Search, FirstSetInOrderAndPassesOverTheTested) {
  // 0 -> 2 -> 1 and 0 -> 3 -> 1: only both together separate 0 from 1; 4 stands alone.
  Array<std::uint8_t, 2> dag({5, 5});
  dag(0, 2) = dag(2, 1) = dag(0, 3) = dag(3, 1) = 1;
  const IndependenceTest test = DSeparation(dag, {0, 1, 2, 3, 4});
  EXPECT_FALSE(search(test, 0.5, {0, 1, {2, 3, 4}, 1}).separating);
  EXPECT_EQ(search(test, 0.5, {0, 1, {2, 3, 4}, 1}).tests, 3);
  const Outcome two = search(test, 0.5, {0, 1, {2, 3, 4}, 2});
  EXPECT_EQ(two.separating, Nodes({2, 3}));
  EXPECT_EQ(two.tests, 1);
  const Nodes tested{2, 3};
  const Outcome rest = search(test, 0.5, {0, 1, {2, 3, 4}, 2, {&tested}});
  EXPECT_FALSE(rest.separating);
  EXPECT_EQ(rest.tests, 2);
  EXPECT_EQ(search(test, 0.5, {0, 1, {2}, 2}).tests, 0);
  EXPECT_EQ(search(test, 0.5, {0, 4, {}, 0}).separating, Nodes());
}

TEST(ChiSquareTail, KnownValues) {
  EXPECT_NEAR(chi_square_tail(3.841458820694124, 1), 0.05, 1e-12);
  EXPECT_NEAR(chi_square_tail(2 * std::log(10), 2), 0.1, 1e-14);  // exp(-x/2)
  EXPECT_NEAR(chi_square_tail(18.307038053275146, 10), 0.05, 1e-12);
  EXPECT_NEAR(chi_square_tail(1, 3), 0.8012519569012008, 1e-12);
  EXPECT_NEAR(chi_square_tail(1074.679449, 1000), 0.05, 1e-6);
  EXPECT_EQ(chi_square_tail(0, 4), 1);
  EXPECT_EQ(chi_square_tail(INFINITY, 4), 0);
  // Even degrees have a closed form: exp(-x/2) sum (x/2)^i / i!.
  for (const double x : {0.3, 2.0, 7.5, 30.0, 90.0}) {
    double term = 1, sum = 1;
    for (int i = 1; i < 5; ++i) sum += term *= x / 2 / i;
    EXPECT_NEAR(chi_square_tail(x, 10), std::exp(-x / 2) * sum, 1e-13) << x;
  }
}

TEST(ChiSquare, TableByHand) {
  // 2 x 2 table 10 20 / 30 40: chi-square 100 (10*40 - 20*30)^2 / (30*70*40*60).
  std::vector<std::int32_t> x, y;
  const int counts[2][2] = {{10, 20}, {30, 40}};
  for (int r = 0; r < 2; ++r)
    for (int c = 0; c < 2; ++c)
      for (int i = 0; i < counts[r][c]; ++i) x.push_back(r), y.push_back(c);
  const double statistic = 100.0 * 200 * 200 / (30.0 * 70 * 40 * 60);
  EXPECT_NEAR(ChiSquare({x, y}).p_value(0, 1, {}), chi_square_tail(statistic, 1), 1e-13);
}

// Against a direct count over all configurations, rows and columns without observations taking no freedom.
TEST(ChiSquare, AgreesWithDirectCounts) {
  Stream stream(5, "categories");
  std::vector<std::vector<std::int32_t>> columns(5);
  for (int s = 0; s < 300; ++s) {
    const auto hidden = static_cast<std::int32_t>(stream.below(3));
    for (std::size_t v = 0; v < 5; ++v)
      columns[v].push_back(stream.uniform() < 0.6 ? hidden
                                                  : static_cast<std::int32_t>(stream.below(v == 4 ? 7 : 2 + v)));
  }
  const ChiSquare test(columns);
  const Nodes z{2, 3, 4};
  std::map<std::vector<std::int32_t>, std::map<std::pair<int, int>, double>> tables;
  for (std::size_t s = 0; s < 300; ++s)
    tables[{columns[2][s], columns[3][s], columns[4][s]}][{columns[0][s], columns[1][s]}] += 1;
  double statistic = 0, freedom = 0;
  for (const auto& [key, table] : tables) {
    std::map<int, double> rows, across;
    double total = 0;
    for (const auto& [cell, count] : table) {
      rows[cell.first] += count;
      across[cell.second] += count;
      total += count;
    }
    freedom += static_cast<double>((rows.size() - 1) * (across.size() - 1));
    for (const auto& [r, a] : rows)
      for (const auto& [c, b] : across) {
        const auto found = table.find({r, c});
        const double count = found == table.end() ? 0 : found->second, expected = a * b / total;
        statistic += (count - expected) * (count - expected) / expected;
      }
  }
  EXPECT_NEAR(test.p_value(0, 1, z), chi_square_tail(statistic, freedom), 1e-12);
  EXPECT_NEAR(test.p_value(1, 0, Nodes{4, 2, 3}), test.p_value(0, 1, z), 1e-12);
}

TEST(ChiSquare, WithoutFreedomNothingIsDependent) {
  EXPECT_EQ(ChiSquare({{0, 1, 0, 1}, {0, 0, 0, 0}}).p_value(0, 1, {}), 1);
  EXPECT_EQ(ChiSquare({{0, 1, 0, 1}, {0, 1, 0, 1}, {0, 1, 2, 3}}).p_value(0, 1, Nodes{2}), 1);
}

TEST(ChiSquare, RefusesBadColumns) {
  using Columns = std::vector<std::vector<std::int32_t>>;
  EXPECT_THROW(ChiSquare(Columns{}), InvalidArgument);
  EXPECT_THROW(ChiSquare(Columns(1)), InvalidArgument);
  EXPECT_THROW(ChiSquare(Columns{{0, 1}, {0}}), InvalidArgument);
  EXPECT_THROW(ChiSquare(Columns{{0, -1}}), InvalidArgument);
  EXPECT_THROW(ChiSquare(Columns{{0, 1 << 20}}), InvalidArgument);
  EXPECT_THROW(ChiSquare(Columns{{0, 50000}, {50000, 0}}), InvalidArgument);  // 50001^2 counts
  EXPECT_EQ(ChiSquare(Columns{{0, 4095}, {4095, 0}}).categories(0), 4096);
}

TEST(DSeparation, ChainsForksCollidersAndSelection) {
  // 0 -> 1 -> 2, 3 -> 2, 2 -> 4
  Array<std::uint8_t, 2> dag({5, 5});
  dag(0, 1) = dag(1, 2) = dag(3, 2) = dag(2, 4) = 1;
  const DSeparation test(dag, {0, 1, 2, 3, 4});
  EXPECT_EQ(test.p_value(0, 2, {}), 0);
  EXPECT_EQ(test.p_value(0, 2, Nodes{1}), 1);
  EXPECT_EQ(test.p_value(0, 3, {}), 1);
  EXPECT_EQ(test.p_value(0, 3, Nodes{2}), 0);  // a collider
  EXPECT_EQ(test.p_value(0, 3, Nodes{4}), 0);  // below a collider
  EXPECT_EQ(test.p_value(3, 4, Nodes{2}), 1);
  EXPECT_EQ(DSeparation(dag, {0, 3}, {4}).p_value(0, 1, {}), 0);  // variable 1 is node 3; 4 is selected on
}

TEST(DSeparation, RefusesBadGraphs) {
  Array<std::uint8_t, 2> dag({2, 2});
  dag(0, 1) = 1;
  EXPECT_THROW(DSeparation(dag, {0, 2}), InvalidArgument);
  EXPECT_THROW(DSeparation(dag, {0, 0}), InvalidArgument);
  EXPECT_THROW(DSeparation(dag, {0, 1}, {1}), InvalidArgument);
  EXPECT_THROW(DSeparation(dag, {}), InvalidArgument);
  EXPECT_THROW(DSeparation(Array<std::uint8_t, 2>({2, 3}), {0}), InvalidArgument);
  dag(1, 0) = 1;
  EXPECT_THAT([&] { DSeparation(dag, {0, 1}); }, ThrowsMessage<InvalidArgument>(HasSubstr("cycle")));
}

TEST(IndependenceTest, RefusesWrongVariables) {
  const IndependenceTest test = ChiSquare({{0, 1}, {1, 0}, {0, 0}});
  EXPECT_EQ(size(test), 3);
  EXPECT_THROW(p_value(test, 0, 3, {}), InvalidArgument);
  EXPECT_THROW(p_value(test, -1, 1, {}), InvalidArgument);
  EXPECT_THROW(p_value(test, 1, 1, {}), InvalidArgument);
  EXPECT_THROW(p_value(test, 0, 1, Nodes{1}), InvalidArgument);
}

TEST(Correlation, OfAttention) {
  Matrix A({2, 2});
  A(0, 0) = 1;
  A(1, 0) = A(1, 1) = 0.5;
  const Matrix R = attention_correlation(A);
  EXPECT_NEAR(R(0, 1), 0.5 / std::sqrt(0.5), 1e-15);
  EXPECT_NEAR(R(1, 1), 1, 1e-15);
  Matrix values({2, 3});  // uncorrelated rows of equal variance: as without values
  values(0, 0) = 1, values(0, 1) = -1;
  values(1, 0) = values(1, 1) = 1 / std::sqrt(3.0), values(1, 2) = -2 / std::sqrt(3.0);
  EXPECT_NEAR(attention_correlation(A, values)(0, 1), R(0, 1), 1e-14);
  values(1, 0) = 3;
  EXPECT_GT(std::fabs(attention_correlation(A, values)(0, 1) - R(0, 1)), 0.01);
  EXPECT_THROW(attention_correlation(A, Matrix({3, 2})), InvalidArgument);
  A(0, 0) = 0;
  EXPECT_THAT([&] { attention_correlation(A); }, ThrowsMessage<InvalidArgument>(HasSubstr("row 0")));
  A(0, 0) = NAN;
  EXPECT_THROW(attention_correlation(A), InvalidArgument);
  EXPECT_THROW(attention_correlation(Matrix({2, 3})), InvalidArgument);
}

// What is left out may be empty; what is kept may not.
TEST(Correlation, OfSomeTokens) {
  Matrix A({3, 3});
  A(0, 0) = 1;
  A(1, 0) = A(1, 1) = 0.5;
  EXPECT_THROW(attention_correlation(A), InvalidArgument);
  const Matrix R = attention_correlation(A, nullptr, {0, 1});
  ASSERT_EQ(R.shape()[0], 2);
  EXPECT_NEAR(R(0, 1), 0.5 / std::sqrt(0.5), 1e-15);
  EXPECT_THAT(
      [&] {
        attention_correlation(A, nullptr, {0, 2});
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("row 2 of the attention is empty")));
}

TEST(Correlation, Copies) {
  Matrix R = random_correlation(4, 50, 6);
  EXPECT_FALSE(copies(R));
  R(1, 3) = R(3, 1) = -1 + 1e-12;
  EXPECT_EQ(copies(R), std::pair(Index{1}, Index{3}));
}

TEST(Correlation, OfObservations) {
  Matrix x({3, 2});
  for (Index r = 0; r < 3; ++r) x(r, 0) = static_cast<double>(r), x(r, 1) = 7 - 2 * static_cast<double>(r);
  EXPECT_NEAR(correlation(x)(0, 1), -1, 1e-15);
  for (Index r = 0; r < 3; ++r) x(r, 1) = 0.1;
  EXPECT_THAT([&] { correlation(x); }, ThrowsMessage<InvalidArgument>(HasSubstr("variable 1 is constant")));
  x(0, 1) = INFINITY;
  EXPECT_THROW(correlation(x), InvalidArgument);
  EXPECT_THROW(correlation(Matrix({1, 2})), InvalidArgument);
}

}  // namespace
}  // namespace saddle::analysis::causal_discovery
