// Which of several methods is better over several data sets: ranks, tests and the groups that no test tells apart.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace saddle::eval {

// One row per data set, one column per method; higher is better. All functions refuse NaN with InvalidArgument.
using Scores = std::vector<std::vector<double>>;

struct TestResult {
  double statistic = 0, p = 1;
};

struct Spread {
  double mean = 0;
  std::optional<double> deviation;  // with n - 1, of two values or more
  std::size_t count = 0;
};

// Of at least one value.
Spread spread(std::span<const double> values);

struct Interval {
  double low = 0, high = 0;
};

// Probability that a variable with Student's distribution lies further than |t| from 0, on either side.
double student_tail(double t, std::size_t degrees);

// Student's interval for the mean of what the values were drawn from; nothing without a deviation.
std::optional<Interval> mean_interval(const Spread& spread, double confidence = 0.95);

// 1 for the smallest; equal values share the mean of their ranks.
std::vector<double> ranks(std::span<const double> values);

// Per method the mean over the data sets of its rank there, 1 for the highest score.
std::vector<double> average_ranks(const Scores& scores);

// Friedman's test with correction for ties, p from the chi-squared distribution; three methods or more. When every row
// is one tie there is nothing to tell apart, and p is 1 (scipy gives NaN).
TestResult friedman(const Scores& scores);

// Wilcoxon's signed-rank test, two-sided, with the rules of scipy 1.10: up to 50 pairs none of which is equal, exact
// (with ties the sum of ranks is cut to a whole number); else equal pairs are dropped, and p comes from the normal
// approximation, corrected for ties. When all pairs are equal p is 1 (scipy refuses).
TestResult wilcoxon(std::span<const double> a, std::span<const double> b);

// Holm's correction: the i-th smallest of m values times m - i, never below the one before, at most 1.
std::vector<double> holm(std::span<const double> p);

// Probability that the range of k standard normal values exceeds q, and the q for a probability.
double range_tail(double q, std::size_t k);
double range_quantile(double probability, std::size_t k);

// Nemenyi: average ranks of `methods` over `rows` data sets that differ by more than this differ at level alpha.
double critical_difference(std::size_t methods, std::size_t rows, double alpha);

struct WinDrawLoss {
  std::size_t win = 0, draw = 0, loss = 0;  // of a against b
};
WinDrawLoss win_draw_loss(std::span<const double> a, std::span<const double> b);

enum class Posthoc { wilcoxon_holm, nemenyi };

struct PairResult {
  std::size_t a = 0, b = 0;    // columns, a < b
  double p = 1, adjusted = 1;  // adjusted for the number of pairs; Nemenyi's p is so already
  bool significant = false;    // adjusted p at most alpha
  WinDrawLoss wins;
};

struct Comparison {
  Posthoc posthoc = Posthoc::wilcoxon_holm;
  double alpha = 0.1;
  std::vector<double> ranks;                      // average, per method
  std::optional<TestResult> friedman;             // from three methods on
  std::optional<double> critical_difference;      // of Nemenyi
  std::vector<PairResult> pairs;                  // in the order of columns
  std::vector<std::vector<std::size_t>> cliques;  // each by rank
};

// Two data sets and two methods or more.
Comparison compare(const Scores& scores, Posthoc posthoc = Posthoc::wilcoxon_holm, double alpha = 0.1);

// The longest runs of neighbours in rank, two or more, with no significant pair among them: the bars of a
// critical-difference diagram.
std::vector<std::vector<std::size_t>> cliques(std::span<const double> average_ranks, std::span<const PairResult> pairs);

}  // namespace saddle::eval
