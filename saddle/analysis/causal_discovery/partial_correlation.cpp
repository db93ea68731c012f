#include "saddle/analysis/causal_discovery/partial_correlation_internal.hpp"

#include <cmath>

namespace saddle::analysis::causal_discovery {

namespace {

// Below this share of a variance the digits left are too few to decide a test.
constexpr double used_up = 1e-7;

}  // namespace

Residuals::Residuals(const FisherZ& test, Index x, Index y, Nodes pool, Index size)
    : test_(test),
      x_(x),
      y_(y),
      pool_(std::move(pool)),
      size_(size),
      levels_(static_cast<std::size_t>(std::max<Index>(size, 1))) {
  if (size < 2) return;  // a single condition is tested without levels
  const Matrix& R = test.correlation();
  const auto m = static_cast<Index>(pool_.size());
  Level& first = levels_[0];
  first.xy = R(x, y);
  for (const Index z : pool_) {
    first.x.push_back(R(x, z));
    first.y.push_back(R(y, z));
  }
  first.own.assign(pool_.size(), 1);
  first.pool = Matrix({m, m});
  for (Index i = 0; i < m; ++i)
    for (Index j = i + 1; j < m; ++j)
      first.pool(i, j) = R(pool_[static_cast<std::size_t>(i)], pool_[static_cast<std::size_t>(j)]);
}

void Residuals::condition(Index depth, Index i) {
  const Level& from = levels_[static_cast<std::size_t>(depth)];
  Level& to = levels_[static_cast<std::size_t>(depth) + 1];
  const auto at = static_cast<std::size_t>(i);
  const double pivot = from.own[at], x = from.x[at] / pivot, y = from.y[at] / pivot;
  const auto m = static_cast<Index>(pool_.size());
  to.set = from.set;
  to.set.push_back(i);
  to.xx = from.xx - from.x[at] * x;
  to.yy = from.yy - from.y[at] * y;
  to.xy = from.xy - from.x[at] * y;
  to.degenerate = from.degenerate || !(pivot > used_up) || !(to.xx > used_up) || !(to.yy > used_up);
  to.x.resize(pool_.size());
  to.y.resize(pool_.size());
  to.own.resize(pool_.size());
  if (to.degenerate) return;
  const bool further = depth + 2 < size_;
  if (further && to.pool.empty()) to.pool = Matrix({m, m});
  const double* row = from.pool.data() + i * m;
  for (Index j = i + 1; j < m; ++j) {
    const auto p = static_cast<std::size_t>(j);
    to.x[p] = from.x[p] - x * row[j];
    to.y[p] = from.y[p] - y * row[j];
    to.own[p] = from.own[p] - row[j] * row[j] / pivot;
    if (!further) continue;
    const double share = row[j] / pivot;
    for (Index l = j + 1; l < m; ++l) to.pool(j, l) = from.pool(j, l) - share * row[l];
  }
}

double Residuals::p_value(Index depth, Index i) {
  const Level& level = levels_[static_cast<std::size_t>(depth)];
  const auto at = static_cast<std::size_t>(i);
  if (!level.degenerate && size_ > 1) {
    const double own = level.own[at], x = level.x[at], y = level.y[at];
    const double xx = level.xx - x * x / own, yy = level.yy - y * y / own;
    if (own > used_up && xx > used_up && yy > used_up)
      return test_.p_value((level.xy - x * y / own) / std::sqrt(xx * yy), size_);
  }
  given_.clear();
  for (const Index member : level.set) given_.push_back(pool_[static_cast<std::size_t>(member)]);
  given_.push_back(pool_[at]);
  return test_.p_value(x_, y_, given_);
}

}  // namespace saddle::analysis::causal_discovery
