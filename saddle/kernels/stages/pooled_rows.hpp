// Average pooling of rows over windows of tokens, 1d or 2d, and its gradient.
#pragma once

#include "saddle/kernels/stages/rows.hpp"
#include "saddle/primal/attention.hpp"

namespace saddle::kernels::stages {

// The windows of one head as blocks of a grid: tokens after the prefix lie row by row on it.
class PooledRows {
 public:
  // keep_tokens [M] must outlive this.
  PooledRows(const primal::Pooling& pooling, Index factor, Index M, Kept keep_tokens);

  Index K() const { return prefix_ + down_ * across_; }
  // Pooled keys with a token behind them [K]; empty when all have one.
  std::vector<std::uint8_t> keep() const;

  // x [M,C] -> y [K,C]: the mean over the kept tokens of each window, 0 for a window without any.
  template <class T>
  void pool(Reader<T>& x, Rows<T> y) const;
  // dy [K,C] -> dx [M,C]
  template <class T>
  void pullback(Rows<const T> dy, const Slice& dx) const;

 private:
  // Calls visit(t) for every kept token t of window J.
  template <class Visit>
  void for_each_token(Index J, Visit&& visit) const;
  Index count(Index J) const;
  // The window of a token, -1 where it is dropped.
  Index window_of(Index t) const;

  Kept keep_tokens_;
  Index M_ = 0, prefix_ = 0;
  Index rows_ = 1, columns_ = 0;              // of the grid
  Index row_factor_ = 1, column_factor_ = 1;  // of a window
  Index down_ = 1, across_ = 0;               // windows
};

}  // namespace saddle::kernels::stages
