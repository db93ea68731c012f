// Rows of one head for the direct sums, each with room behind it for whole vectors.
#pragma once

#include <algorithm>

#include "saddle/base/view.hpp"

namespace saddle::kernels::circular {

struct RowLayout {
  Index D = 0, lanes = 1;

  Index vectors() const { return (D + lanes - 1) / lanes; }
  Index stride() const { return vectors() * lanes; }
  Index size(Index rows) const { return rows * stride(); }
};

// to [end-begin, stride] = rows [begin,end) of `from`, each times factor[row] (null: 1); zeros behind them.
template <class T>
void gather(const View<const T, 2>& from, Index begin, Index end, const T* factor, const RowLayout& layout, T* to) {
  for (Index i = begin; i < end; ++i, to += layout.stride()) {
    const T* const row = &from(i, 0);
    for (Index c = 0; c < layout.D; ++c) to[c] = factor ? factor[i] * row[c] : row[c];
    std::fill(to + layout.D, to + layout.stride(), T{0});
  }
}

// Rows [begin,end) of `to` = from [end-begin, stride], each times factor[row] (null: 1).
template <class T>
void scatter(const T* from, Index begin, Index end, const T* factor, const RowLayout& layout, const View<T, 2>& to) {
  for (Index i = begin; i < end; ++i, from += layout.stride()) {
    T* const row = &to(i, 0);
    for (Index c = 0; c < layout.D; ++c) row[c] = factor ? factor[i] * from[c] : from[c];
  }
}

}  // namespace saddle::kernels::circular
