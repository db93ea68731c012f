#include "saddle/primal/pooling.hpp"

#include <algorithm>

namespace saddle::primal {

namespace {

Index window_count(Tail tail, Index factor, Index n) {
  return tail == Tail::partial ? (n + factor - 1) / factor : n / factor;
}

Grid token_grid(const Pooling& pooling, Index M) {
  return pooling.grid.empty() ? most_square_grid(std::max<Index>(M - pooling.prefix, 0)) : pooling.grid;
}

Index count_kept(const std::vector<Index>& window, std::span<const std::uint8_t> keep) {
  return std::count_if(window.begin(), window.end(), [&](Index t) { return keep[t] != 0; });
}

}  // namespace

std::vector<Index> pooling_factors(const Pooling& pooling, Index H) {
  if (!pooling.factors.empty()) return pooling.factors;
  std::vector<Index> factors;
  for (Index s = 0; s < H; ++s) factors.push_back(pooling_factor(pooling, H, s));
  return factors;
}

Index pooling_factor(const Pooling& pooling, Index H, Index head) {
  if (!pooling.factors.empty()) return pooling.factors[head];
  return H == 2 ? head + 1 : Index{1} << std::min<Index>(head / 2, 30);
}

Windows pooling_windows(const Pooling& pooling, Index factor, Index M) {
  Windows windows;
  if (pooling.pool == PoolShape::one_d) {
    for (Index J = 0; J < window_count(pooling.tail, factor, M); ++J) {
      auto& window = windows.emplace_back();
      for (Index t = J * factor; t < std::min(M, (J + 1) * factor); ++t) window.push_back(t);
    }
    return windows;
  }
  const Grid grid = token_grid(pooling, M);
  for (Index t = 0; t < pooling.prefix; ++t) windows.push_back({t});
  for (Index R = 0; R < window_count(pooling.tail, factor, grid.rows); ++R)
    for (Index C = 0; C < window_count(pooling.tail, factor, grid.columns); ++C) {
      auto& window = windows.emplace_back();
      for (Index r = R * factor; r < std::min(grid.rows, (R + 1) * factor); ++r)
        for (Index c = C * factor; c < std::min(grid.columns, (C + 1) * factor); ++c)
          window.push_back(pooling.prefix + r * grid.columns + c);
    }
  return windows;
}

Index pooled_count(const Pooling& pooling, Index factor, Index M) {
  if (pooling.pool == PoolShape::one_d) return window_count(pooling.tail, factor, M);
  const Grid grid = token_grid(pooling, M);
  return pooling.prefix +
         window_count(pooling.tail, factor, grid.rows) * window_count(pooling.tail, factor, grid.columns);
}

Matrix pool(const Windows& windows, const Matrix& x, std::span<const std::uint8_t> keep) {
  const Index C = x.shape()[1];
  Matrix y({static_cast<Index>(windows.size()), C});
  for (Index J = 0; J < y.shape()[0]; ++J) {
    const auto& window = windows[J];
    const Index n = count_kept(window, keep);
    for (Index t : window)
      if (keep[t])
        for (Index c = 0; c < C; ++c) y(J, c) += x(t, c) / static_cast<double>(n);
  }
  return y;
}

Matrix pool_pullback(const Windows& windows, const Matrix& dy, std::span<const std::uint8_t> keep, Index M) {
  const Index C = dy.shape()[1];
  Matrix dx({M, C});
  for (Index J = 0; J < dy.shape()[0]; ++J) {
    const auto& window = windows[J];
    const Index n = count_kept(window, keep);
    for (Index t : window)
      if (keep[t])
        for (Index c = 0; c < C; ++c) dx(t, c) += dy(J, c) / static_cast<double>(n);
  }
  return dx;
}

}  // namespace saddle::primal
