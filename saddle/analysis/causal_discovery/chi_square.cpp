// Pearson's chi-square in strata, and the tail of its distribution.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "saddle/analysis/causal_discovery/chi_square_internal.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

// Two variables have a count for each pair of their categories; 4096 of each take 64 MB.
constexpr std::int32_t most_of_a_variable = 1 << 12;

// By Stirling's series after shifting the argument up; std::lgamma writes a global sign and is not for threads.
double log_gamma(double x) {
  double shift = 0;
  for (; x < 12; x += 1) shift += std::log(x);
  const double i = 1 / x, i2 = i * i;
  const double series = i * (1.0 / 12 - i2 * (1.0 / 360 - i2 * (1.0 / 1260 - i2 * (1.0 / 1680 - i2 / 1188))));
  return (x - 0.5) * std::log(x) - x + 0.91893853320467274178 + series - shift;
}

}  // namespace

double chi_square_tail(double statistic, double freedom) {
  if (!(statistic > 0)) return 1;
  if (std::isinf(statistic)) return 0;
  const double a = freedom / 2, x = statistic / 2, tiny = 1e-300;
  const double front = std::exp(a * std::log(x) - x - log_gamma(a));
  if (x < a + 1) {  // series of the lower part
    double term = 1 / a, sum = term;
    for (double n = a + 1; term > sum * 1e-17; n += 1) sum += term *= x / n;
    return 1 - front * sum;
  }
  // Continued fraction of the upper part, by Lentz.
  double b = x + 1 - a, c = 1 / tiny, d = 1 / b, fraction = d;
  for (int i = 1; i < 100000; ++i) {
    const double step = -i * (i - a);
    b += 2;
    d = step * d + b;
    c = b + step / c;
    if (std::fabs(d) < tiny) d = tiny;
    if (std::fabs(c) < tiny) c = tiny;
    d = 1 / d;
    fraction *= c * d;
    if (std::fabs(c * d - 1) < 1e-15) break;
  }
  return front * fraction;
}

ChiSquare::ChiSquare(std::vector<std::vector<std::int32_t>> columns) : columns_(std::move(columns)) {
  if (columns_.empty() || columns_[0].empty())
    throw InvalidArgument("chi-square needs at least one variable and one observation");
  for (std::size_t v = 0; v < columns_.size(); ++v) {
    if (columns_[v].size() != columns_[0].size())
      throw InvalidArgument(
          fmt::format("variable {} has {} observations, variable 0 has {}", v, columns_[v].size(), columns_[0].size()));
    const auto [least, largest] = std::minmax_element(columns_[v].begin(), columns_[v].end());
    if (*least < 0 || *largest >= most_of_a_variable)
      throw InvalidArgument(fmt::format("variable {} has category {}, expected 0 to {}", v,
                                        *least < 0 ? *least : *largest, most_of_a_variable - 1));
    categories_.push_back(*largest + 1);
  }
}

double ChiSquare::p_value(Index x, Index y, std::span<const Index> z) const {
  Strata strata(*this, x, y, {z.begin(), z.end()}, static_cast<Index>(z.size()));
  if (z.empty()) return strata.p_value();
  const auto last = static_cast<Index>(z.size()) - 1;
  for (Index depth = 0; depth < last; ++depth) strata.condition(depth, depth);
  return strata.p_value(last, last);
}

Strata::Strata(const ChiSquare& test, Index x, Index y, Nodes pool, Index size)
    : test_(test),
      pool_(std::move(pool)),
      rows_(test.categories(x)),
      columns_(test.categories(y)),
      cells_(static_cast<std::size_t>(test.samples())),
      levels_(static_cast<std::size_t>(std::max<Index>(size, 1))) {
  for (std::size_t s = 0; s < cells_.size(); ++s) cells_[s] = test.column(x)[s] * columns_ + test.column(y)[s];
  levels_[0].codes.assign(cells_.size(), 0);
  levels_[0].count = 1;
}

// Numbers the configurations of `level` together with one more variable, those that occur, from 0.
void Strata::refine(const Level& level, Index variable, Level& into) {
  const auto& column = test_.column(variable);
  const std::int64_t categories = test_.categories(variable);
  numbers_.assign(static_cast<std::size_t>(level.count * categories), -1);
  into.codes.resize(cells_.size());
  std::int32_t next = 0;
  for (std::size_t s = 0; s < cells_.size(); ++s) {
    std::int32_t& number = numbers_[static_cast<std::size_t>(level.codes[s] * categories + column[s])];
    if (number < 0) number = next++;
    into.codes[s] = number;
  }
  into.count = next;
}

void Strata::condition(Index depth, Index i) {
  refine(levels_[static_cast<std::size_t>(depth)], pool_[static_cast<std::size_t>(i)],
         levels_[static_cast<std::size_t>(depth) + 1]);
}

double Strata::p_value() {
  counts_.assign(static_cast<std::size_t>(rows_) * static_cast<std::size_t>(columns_), 0);
  for (const std::int32_t cell : cells_) ++counts_[static_cast<std::size_t>(cell)];
  return tail(1);
}

double Strata::p_value(Index depth, Index i) {
  const Level& level = levels_[static_cast<std::size_t>(depth)];
  const Index variable = pool_[static_cast<std::size_t>(i)];
  const std::int64_t table = std::int64_t{rows_} * columns_, categories = test_.categories(variable);
  // Where most configurations cannot occur, numbering those that do is cheaper than a count for each.
  if (level.count * categories * table > 8 * test_.samples()) {
    refine(level, variable, last_);
    counts_.assign(static_cast<std::size_t>(last_.count * table), 0);
    for (std::size_t s = 0; s < cells_.size(); ++s)
      ++counts_[static_cast<std::size_t>(last_.codes[s] * table + cells_[s])];
    return tail(last_.count);
  }
  const auto& column = test_.column(variable);
  counts_.assign(static_cast<std::size_t>(level.count * categories * table), 0);
  for (std::size_t s = 0; s < cells_.size(); ++s)
    ++counts_[static_cast<std::size_t>((level.codes[s] * categories + column[s]) * table + cells_[s])];
  return tail(level.count * categories);
}

// The p-value of the tables in counts_ [strata, rows, columns].
double Strata::tail(std::int64_t strata) {
  double statistic = 0, freedom = 0;
  row_sums_.resize(static_cast<std::size_t>(rows_));
  column_sums_.resize(static_cast<std::size_t>(columns_));
  const std::int32_t* count = counts_.data();
  for (std::int64_t stratum = 0; stratum < strata; ++stratum, count += std::int64_t{rows_} * columns_) {
    std::fill(row_sums_.begin(), row_sums_.end(), 0);
    std::fill(column_sums_.begin(), column_sums_.end(), 0);
    for (std::int32_t r = 0; r < rows_; ++r)
      for (std::int32_t c = 0; c < columns_; ++c) {
        row_sums_[static_cast<std::size_t>(r)] += count[r * columns_ + c];
        column_sums_[static_cast<std::size_t>(c)] += count[r * columns_ + c];
      }
    double total = 0;
    int rows = 0, columns = 0;
    for (const std::int32_t sum : row_sums_) total += sum, rows += sum > 0 ? 1 : 0;
    for (const std::int32_t sum : column_sums_) columns += sum > 0 ? 1 : 0;
    if (rows < 2 || columns < 2) continue;
    freedom += static_cast<double>(rows - 1) * (columns - 1);
    for (std::int32_t r = 0; r < rows_; ++r)
      for (std::int32_t c = 0; c < columns_; ++c) {
        const double expected = static_cast<double>(row_sums_[static_cast<std::size_t>(r)]) *
                                column_sums_[static_cast<std::size_t>(c)] / total;
        if (expected == 0) continue;
        const double off = count[r * columns_ + c] - expected;
        statistic += off * off / expected;
      }
  }
  return freedom == 0 ? 1 : chi_square_tail(statistic, freedom);
}

}  // namespace saddle::analysis::causal_discovery
