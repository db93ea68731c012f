#include "saddle/kernels/stages/pooled_rows.hpp"

#include <algorithm>

namespace saddle::kernels::stages {

PooledRows::PooledRows(const primal::Pooling& pooling, Index factor, Index M, Kept keep_tokens)
    : keep_tokens_(keep_tokens), M_(M), columns_(M), column_factor_(factor) {
  if (pooling.pool == primal::PoolShape::two_d) {
    const primal::Grid grid =
        pooling.grid.empty() ? primal::most_square_grid(std::max<Index>(M - pooling.prefix, 0)) : pooling.grid;
    prefix_ = pooling.prefix;
    rows_ = grid.rows;
    columns_ = grid.columns;
    row_factor_ = factor;
  }
  const Index rest = pooling.tail == primal::Tail::partial ? 1 : 0;
  down_ = (rows_ + rest * (row_factor_ - 1)) / row_factor_;
  across_ = (columns_ + rest * (column_factor_ - 1)) / column_factor_;
}

template <class Visit>
void PooledRows::for_each_token(Index J, Visit&& visit) const {
  if (J < prefix_) {
    if (kept_at(keep_tokens_, J)) visit(J);
    return;
  }
  const Index top = (J - prefix_) / across_ * row_factor_, left = (J - prefix_) % across_ * column_factor_;
  const Index bottom = std::min(rows_, top + row_factor_), right = std::min(columns_, left + column_factor_);
  for (Index r = top; r < bottom; ++r)
    for (Index c = left; c < right; ++c) {
      const Index t = prefix_ + r * columns_ + c;
      if (kept_at(keep_tokens_, t)) visit(t);
    }
}

Index PooledRows::count(Index J) const {
  Index n = 0;
  for_each_token(J, [&](Index) { ++n; });
  return n;
}

Index PooledRows::window_of(Index t) const {
  if (t < prefix_) return t;
  const Index R = (t - prefix_) / columns_ / row_factor_, C = (t - prefix_) % columns_ / column_factor_;
  return R < down_ && C < across_ ? prefix_ + R * across_ + C : -1;
}

std::vector<std::uint8_t> PooledRows::keep() const {
  std::vector<std::uint8_t> keep;
  if (keep_tokens_.empty()) return keep;
  bool all = true;
  keep.resize(K());
  for (Index J = 0; J < K(); ++J) {
    keep[J] = count(J) > 0;
    all = all && keep[J] != 0;
  }
  if (all) keep.clear();
  return keep;
}

template <class T>
void PooledRows::pool(Reader<T>& x, Rows<T> y) const {
  const Index C = x.columns();
  // A few tokens lose nothing when they are summed as T.
  std::vector<double> sums(row_factor_ * column_factor_ > 16 ? C : 0);
  for (Index J = 0; J < K(); ++J) {
    T* out = y[J];
    Index n = 0;
    if (sums.empty()) {
      for_each_token(J, [&](Index t) {
        const T* row = x.row(t);
        if (n++ == 0)
          std::copy_n(row, C, out);
        else
          for (Index c = 0; c < C; ++c) out[c] += row[c];
      });
      if (n == 0) std::fill_n(out, C, T{});
      if (n < 2) continue;
      const T inverse = T{1} / static_cast<T>(n);
      for (Index c = 0; c < C; ++c) out[c] *= inverse;
      continue;
    }
    double* sum = sums.data();
    std::fill_n(sum, C, 0.0);
    for_each_token(J, [&](Index t) {
      const T* row = x.row(t);
      for (Index c = 0; c < C; ++c) sum[c] += static_cast<double>(row[c]);
      ++n;
    });
    const double inverse = n > 0 ? 1 / static_cast<double>(n) : 0;
    for (Index c = 0; c < C; ++c) out[c] = static_cast<T>(sum[c] * inverse);
  }
}

template <class T>
void PooledRows::pullback(Rows<const T> dy, const Slice& dx) const {
  const Index C = dx.columns;
  std::vector<T> inverse(K()), row(C);
  for (Index J = 0; J < K(); ++J) inverse[J] = T{1} / static_cast<T>(std::max<Index>(count(J), 1));
  const Rows<T> direct = in_place<T>(dx);
  for (Index t = 0; t < M_; ++t) {
    const Index J = kept_at(keep_tokens_, t) ? window_of(t) : -1;
    T* out = direct ? direct[t] : row.data();
    if (J < 0)
      std::fill_n(out, C, T{});
    else
      for (Index c = 0; c < C; ++c) out[c] = dy[J][c] * inverse[J];
    if (!direct) store_row(dx, t, out);
  }
}

template void PooledRows::pool(Reader<float>&, Rows<float>) const;
template void PooledRows::pool(Reader<double>&, Rows<double>) const;
template void PooledRows::pullback(Rows<const float>, const Slice&) const;
template void PooledRows::pullback(Rows<const double>, const Slice&) const;

}  // namespace saddle::kernels::stages
