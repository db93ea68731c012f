#include "saddle/eval/statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "saddle/base/error.hpp"

namespace saddle::eval {

namespace {

constexpr std::size_t exact_up_to = 50;  // pairs, as in scipy

void require_numbers(std::span<const double> values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (std::isnan(values[i]))
      throw InvalidArgument(fmt::format("value {} of {} is not a number", i + 1, values.size()),
                            "leave the data set out, or give the missing score");
}

// Rows and columns; every row as long as the first, and all of it numbers.
std::size_t require_table(const Scores& scores, std::size_t rows, std::size_t columns) {
  const std::size_t width = scores.empty() ? 0 : scores.front().size();
  if (scores.size() < rows || width < columns)
    throw InvalidArgument(fmt::format("this test needs {} data sets and {} methods or more, found {} and {}", rows,
                                      columns, scores.size(), width));
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i].size() != width)
      throw InvalidArgument(fmt::format("row {} has {} scores, the first has {}", i + 1, scores[i].size(), width));
    require_numbers(scores[i]);
  }
  return width;
}

std::vector<std::size_t> sorted_order(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  return order;
}

// Sum of t^3 - t over the groups of t equal values.
double tie_sum(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  double sum = 0;
  for (std::size_t i = 0, j = 0; i < sorted.size(); i = j) {
    while (j < sorted.size() && sorted[j] == sorted[i]) ++j;
    const auto t = static_cast<double>(j - i);
    sum += t * (t * t - 1);
  }
  return sum;
}

// Ranks of one row, 1 for the highest.
std::vector<double> descending_ranks(std::span<const double> row) {
  std::vector<double> negative(row.size());
  std::transform(row.begin(), row.end(), negative.begin(), std::negate<>());
  return ranks(negative);
}

// Upper tail of the chi-squared distribution, by the recursion of the incomplete gamma function in its first argument:
// all terms are positive, so nothing cancels.
double chi_squared_tail(double x, std::size_t degrees) {
  const double half = x / 2;
  if (half <= 0) return 1;
  double a = degrees % 2 == 0 ? 1 : 0.5;
  double tail = degrees % 2 == 0 ? std::exp(-half) : std::erfc(std::sqrt(half));
  for (; a < static_cast<double>(degrees) / 2; ++a) tail += std::exp(a * std::log(half) - half - std::lgamma(a + 1));
  return std::min(tail, 1.0);
}

// Probabilities of the sums of positive ranks 0 .. n (n + 1) / 2.
std::vector<double> signed_rank_distribution(std::size_t n) {
  std::vector<double> mass{1};
  for (std::size_t k = 1; k <= n; ++k) {
    std::vector<double> next(k * (k + 1) / 2 + 1);
    for (std::size_t i = 0; i < mass.size(); ++i) {
      next[i] += 0.5 * mass[i];
      next[i + k] += 0.5 * mass[i];
    }
    mass = std::move(next);
  }
  return mass;
}

double exact_p(double positive, std::size_t n) {
  const std::vector<double> mass = signed_rank_distribution(n);
  const auto sum = static_cast<std::ptrdiff_t>(positive);
  if (sum == static_cast<std::ptrdiff_t>((mass.size() - 1) / 2)) return 1;
  const double less = std::accumulate(mass.begin(), mass.begin() + sum + 1, 0.0);
  const double greater = std::accumulate(mass.begin() + sum, mass.end(), 0.0);
  return std::clamp(2 * std::min(less, greater), 0.0, 1.0);
}

double normal_p(double statistic, double count, double ties) {
  const double mean = count * (count + 1) / 4;
  const double error = std::sqrt((count * (count + 1) * (2 * count + 1) - ties / 2) / 24);
  return std::erfc(std::abs((statistic - mean) / error) / std::numbers::sqrt2);
}

double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

void require_share(const char* name, double value) {
  if (!(value > 0 && value < 1)) throw InvalidArgument(fmt::format("{} lies between 0 and 1, found {}", name, value));
}

}  // namespace

Spread spread(std::span<const double> values) {
  if (values.empty()) throw InvalidArgument("a mean needs at least one value");
  require_numbers(values);
  const auto n = static_cast<double>(values.size());
  Spread result{std::accumulate(values.begin(), values.end(), 0.0) / n, {}, values.size()};
  if (values.size() < 2) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.deviation = std::sqrt(squares / (n - 1));
  return result;
}

// With t = sqrt(degrees) tan(angle) the density is a power of the cosine, whose integral is a finite sum.
double student_tail(double t, std::size_t degrees) {
  if (degrees < 1) throw InvalidArgument("Student's distribution needs at least one degree of freedom");
  const double angle = std::atan(std::abs(t) / std::sqrt(static_cast<double>(degrees)));
  const double sine = std::sin(angle), cosine = std::cos(angle);
  const bool odd = degrees % 2 == 1;
  double sum = 0, term = odd ? cosine : 1;
  for (std::size_t power = odd ? 1 : 0; power + 2 <= degrees; power += 2) {
    sum += term;
    term *= cosine * cosine * static_cast<double>(power + 1) / static_cast<double>(power + 2);
  }
  const double within = odd ? 2 / std::numbers::pi * (angle + sine * sum) : sine * sum;
  return std::clamp(1 - within, 0.0, 1.0);
}

std::optional<Interval> mean_interval(const Spread& spread, double confidence) {
  require_share("confidence", confidence);
  if (!spread.deviation) return {};
  double low = 0, high = 1;
  while (student_tail(high, spread.count - 1) > 1 - confidence) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (student_tail(middle, spread.count - 1) > 1 - confidence ? low : high) = middle;
  }
  const double reach = high * *spread.deviation / std::sqrt(static_cast<double>(spread.count));
  return Interval{spread.mean - reach, spread.mean + reach};
}

std::vector<double> ranks(std::span<const double> values) {
  require_numbers(values);
  const std::vector<std::size_t> order = sorted_order(values);
  std::vector<double> result(values.size());
  for (std::size_t i = 0, j = 0; i < order.size(); i = j) {
    while (j < order.size() && values[order[j]] == values[order[i]]) ++j;
    for (std::size_t k = i; k < j; ++k) result[order[k]] = static_cast<double>(i + j + 1) / 2;
  }
  return result;
}

std::vector<double> average_ranks(const Scores& scores) {
  std::vector<double> sums(require_table(scores, 1, 1));
  for (const auto& row : scores) {
    const std::vector<double> rank = descending_ranks(row);
    for (std::size_t j = 0; j < rank.size(); ++j) sums[j] += rank[j];
  }
  for (double& sum : sums) sum /= static_cast<double>(scores.size());
  return sums;
}

TestResult friedman(const Scores& scores) {
  const std::size_t columns = require_table(scores, 1, 3);
  const auto k = static_cast<double>(columns), n = static_cast<double>(scores.size());
  double ties = 0;
  std::vector<double> sums(columns);
  for (const auto& row : scores) {
    const std::vector<double> rank = descending_ranks(row);
    ties += tie_sum(rank);
    for (std::size_t j = 0; j < columns; ++j) sums[j] += rank[j];
  }
  const double correction = 1 - ties / (k * (k * k - 1) * n);
  if (correction <= 0) return {0, 1};
  const double squares = std::inner_product(sums.begin(), sums.end(), sums.begin(), 0.0);
  const double statistic = (12 / (k * n * (k + 1)) * squares - 3 * n * (k + 1)) / correction;
  return {statistic, chi_squared_tail(statistic, columns - 1)};
}

TestResult wilcoxon(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size() || a.empty())
    throw InvalidArgument(fmt::format("Wilcoxon's test compares pairs, found {} and {} values", a.size(), b.size()));
  require_numbers(a);
  require_numbers(b);
  std::vector<double> difference(a.size());
  std::transform(a.begin(), a.end(), b.begin(), difference.begin(), std::minus<>());
  require_numbers(difference);  // of two infinite values
  const std::size_t pairs = difference.size();
  std::erase(difference, 0.0);
  if (difference.empty()) return {0, 1};
  const bool exact = pairs <= exact_up_to && difference.size() == pairs;

  std::vector<double> magnitude(difference.size());
  std::transform(difference.begin(), difference.end(), magnitude.begin(), [](double d) { return std::abs(d); });
  const std::vector<double> rank = ranks(magnitude);
  double positive = 0, negative = 0;
  for (std::size_t i = 0; i < rank.size(); ++i) (difference[i] > 0 ? positive : negative) += rank[i];
  const double statistic = std::min(positive, negative);
  return {statistic,
          exact ? exact_p(positive, pairs) : normal_p(statistic, static_cast<double>(rank.size()), tie_sum(rank))};
}

std::vector<double> holm(std::span<const double> p) {
  require_numbers(p);
  std::vector<double> adjusted(p.size());
  double before = 0;
  std::size_t left = p.size();
  for (const std::size_t i : sorted_order(p)) {
    before = std::max(before, std::min(1.0, p[i] * static_cast<double>(left--)));
    adjusted[i] = before;
  }
  return adjusted;
}

double range_tail(double q, std::size_t k) {
  if (k < 2) throw InvalidArgument(fmt::format("a range needs two values or more, found {}", k));
  if (q <= 0) return 1;
  // P(range <= q) = k times the integral over the smallest value z. The integrand is smooth and vanishes at both ends,
  // where equal steps converge faster than any power.
  constexpr double from = -9, to = 9;
  constexpr int steps = 720;
  constexpr double step = (to - from) / steps;
  double below = 0;
  for (int i = 0; i <= steps; ++i) {
    const double z = from + i * step;
    const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
    below += density * std::pow(normal_cdf(z + q) - normal_cdf(z), static_cast<double>(k - 1));
  }
  return std::clamp(1 - static_cast<double>(k) * below * step, 0.0, 1.0);
}

double range_quantile(double probability, std::size_t k) {
  require_share("a probability", probability);
  double low = 0, high = 64;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (range_tail(middle, k) > 1 - probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

double critical_difference(std::size_t methods, std::size_t rows, double alpha) {
  require_share("alpha", alpha);
  if (methods < 2 || rows < 1)
    throw InvalidArgument(
        fmt::format("a critical difference needs two methods and a data set, found {} and {}", methods, rows));
  const auto k = static_cast<double>(methods), n = static_cast<double>(rows);
  return range_quantile(1 - alpha, methods) / std::numbers::sqrt2 * std::sqrt(k * (k + 1) / (6 * n));
}

WinDrawLoss win_draw_loss(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size())
    throw InvalidArgument(fmt::format("wins are counted over pairs, found {} and {} values", a.size(), b.size()));
  require_numbers(a);
  require_numbers(b);
  WinDrawLoss count;
  for (std::size_t i = 0; i < a.size(); ++i) ++(a[i] > b[i] ? count.win : a[i] < b[i] ? count.loss : count.draw);
  return count;
}

std::vector<std::vector<std::size_t>> cliques(std::span<const double> average_ranks,
                                              std::span<const PairResult> pairs) {
  const std::vector<std::size_t> order = sorted_order(average_ranks);
  const auto differ = [&](std::size_t a, std::size_t b) {
    return std::any_of(pairs.begin(), pairs.end(), [&](const PairResult& pair) {
      return pair.significant && ((pair.a == a && pair.b == b) || (pair.a == b && pair.b == a));
    });
  };
  std::vector<std::vector<std::size_t>> groups;
  std::size_t covered = 0;  // the end of the last group: one that ends no later lies inside it
  for (std::size_t first = 0; first < order.size(); ++first) {
    std::size_t end = first + 1;
    const auto joins = [&](std::size_t candidate) {
      return std::none_of(order.begin() + static_cast<std::ptrdiff_t>(first),
                          order.begin() + static_cast<std::ptrdiff_t>(candidate),
                          [&](std::size_t member) { return differ(member, order[candidate]); });
    };
    while (end < order.size() && joins(end)) ++end;
    if (end - first < 2 || end <= covered) continue;
    groups.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(first),
                        order.begin() + static_cast<std::ptrdiff_t>(end));
    covered = end;
  }
  return groups;
}

Comparison compare(const Scores& scores, Posthoc posthoc, double alpha) {
  const std::size_t methods = require_table(scores, 2, 2);
  require_share("alpha", alpha);
  Comparison result;
  result.posthoc = posthoc;
  result.alpha = alpha;
  result.ranks = average_ranks(scores);
  if (methods >= 3) result.friedman = friedman(scores);
  std::vector<std::vector<double>> columns(methods);
  for (const auto& row : scores)
    for (std::size_t j = 0; j < methods; ++j) columns[j].push_back(row[j]);

  const auto k = static_cast<double>(methods), n = static_cast<double>(scores.size());
  const double rank_error = std::sqrt(k * (k + 1) / (6 * n));
  std::vector<double> p;
  for (std::size_t a = 0; a < methods; ++a)
    for (std::size_t b = a + 1; b < methods; ++b) {
      p.push_back(
          posthoc == Posthoc::nemenyi
              ? range_tail(std::numbers::sqrt2 * std::abs(result.ranks[a] - result.ranks[b]) / rank_error, methods)
              : wilcoxon(columns[a], columns[b]).p);
      result.pairs.push_back({a, b, p.back(), p.back(), false, win_draw_loss(columns[a], columns[b])});
    }
  if (posthoc == Posthoc::nemenyi) result.critical_difference = critical_difference(methods, scores.size(), alpha);
  const std::vector<double> adjusted = posthoc == Posthoc::nemenyi ? p : holm(p);
  for (std::size_t i = 0; i < p.size(); ++i) {
    result.pairs[i].adjusted = adjusted[i];
    result.pairs[i].significant = adjusted[i] <= alpha;
  }
  result.cliques = cliques(result.ranks, result.pairs);
  return result;
}

}  // namespace saddle::eval
