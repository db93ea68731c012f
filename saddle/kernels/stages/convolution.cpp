#include "saddle/kernels/stages/convolution.hpp"

#include <algorithm>

#include "saddle/kernels/stages/row_loops.hpp"

namespace saddle::kernels::stages {

namespace {

// One number of the kernel: y(r,c) += theta x(r + rows, c + columns).
struct Tap {
  Index rows = 0, columns = 0;
  std::size_t f = 0;
};

// The taps that reach into the grid at all.
std::vector<Tap> taps_of(const Convolution& conv) {
  std::vector<Tap> taps;
  for (Index fr = 0; fr < conv.size.rows; ++fr)
    for (Index fc = 0; fc < conv.size.columns; ++fc) {
      const Tap tap{fr - (conv.size.rows - 1) / 2, fc - (conv.size.columns - 1) / 2,
                    static_cast<std::size_t>(fr * conv.size.columns + fc)};
      if (std::abs(tap.rows) < conv.grid.rows && std::abs(tap.columns) < conv.grid.columns) taps.push_back(tap);
    }
  return taps;
}

// y = sum_t c[t] x[t] over n numbers, three terms at a time since a pass over y costs as much as a term.
template <class T>
void combine(const std::vector<T>& c, const std::vector<const T*>& x, T* __restrict y, Index n) {
  std::size_t t = 0;
  if (x.size() >= 3) {
    const T c0 = c[0], c1 = c[1], c2 = c[2];
    const T *x0 = x[0], *x1 = x[1], *x2 = x[2];
#pragma omp simd
    for (Index d = 0; d < n; ++d) y[d] = c0 * x0[d] + c1 * x1[d] + c2 * x2[d];
    t = 3;
  } else {
    std::fill_n(y, n, T{});
  }
  for (; t + 3 <= x.size(); t += 3) {
    const T c0 = c[t], c1 = c[t + 1], c2 = c[t + 2];
    const T *x0 = x[t], *x1 = x[t + 1], *x2 = x[t + 2];
#pragma omp simd
    for (Index d = 0; d < n; ++d) y[d] += c0 * x0[d] + c1 * x1[d] + c2 * x2[d];
  }
  for (; t < x.size(); ++t) add_scaled(y, c[t], x[t], n);
}

// The features of one token on their grid, with zeros around: a shift of the grid is then a shift in memory, and one
// loop runs over all rows of the grid, the gaps between them included.
template <class T>
class PaddedGrid {
 public:
  explicit PaddedGrid(const Convolution& conv)
      : grid_(conv.grid),
        above_(std::min((conv.size.rows - 1) / 2, conv.grid.rows - 1)),
        left_(std::min((conv.size.columns - 1) / 2, conv.grid.columns - 1)),
        width_(conv.grid.columns + 2 * left_),
        cells_(static_cast<std::size_t>((conv.grid.rows + 2 * above_) * width_), T{}) {}

  // Numbers from the first feature to the last.
  Index length() const { return (grid_.rows - 1) * width_ + grid_.columns; }
  T* origin() { return cells_.data() + above_ * width_ + left_; }
  const T* at(const Tap& tap) { return origin() + tap.rows * width_ + tap.columns; }
  void load(const T* x) { copy(x, grid_.columns, origin(), width_); }
  // from [length] as laid out here, without the gaps.
  void store(const T* from, T* y) const { copy(from, width_, y, grid_.columns); }

 private:
  // Rows of a grid are short: a call of memcpy for each would take most of the time.
  void copy(const T* from, Index from_stride, T* to, Index to_stride) const {
    for (Index r = 0; r < grid_.rows; ++r, from += from_stride, to += to_stride)
#pragma omp simd
      for (Index c = 0; c < grid_.columns; ++c) to[c] = from[c];
  }

  primal::Grid grid_;
  Index above_, left_, width_;
  std::vector<T> cells_;
};

template <class T>
void convolve_features(const Convolution& conv, std::span<const double> theta, Rows<const T> in, Rows<T> out, Index n,
                       Index D, Kept keep_out) {
  PaddedGrid<T> padded(conv);
  std::vector<T> c, y(conv.grid.rows > 1 ? padded.length() : 0);
  std::vector<const T*> x;
  for (const Tap& tap : taps_of(conv)) {
    c.push_back(static_cast<T>(theta[tap.f]));
    x.push_back(padded.at(tap));
  }
  for (Index i = 0; i < n; ++i) {
    if (!kept_at(keep_out, i)) {
      std::fill_n(out[i], D, T{});
      continue;
    }
    padded.load(in[i]);
    combine(c, x, y.empty() ? out[i] : y.data(), padded.length());
    if (!y.empty()) padded.store(y.data(), out[i]);
  }
}

// Calls visit(output token, kernel index, input token) for the existing input tokens of one output token.
template <class Visit>
void for_each_tap(const Convolution& conv, const std::vector<Tap>& taps, Kept keep_in, Index to, Visit&& visit) {
  const Index r = to / conv.grid.columns, c = to % conv.grid.columns;
  for (const Tap& tap : taps) {
    const Index ir = r + tap.rows, ic = c + tap.columns;
    if (ir < 0 || ir >= conv.grid.rows || ic < 0 || ic >= conv.grid.columns) continue;
    const Index from = ir * conv.grid.columns + ic;
    if (kept_at(keep_in, from)) visit(tap.f, from);
  }
}

template <class T>
void convolve_tokens(const Convolution& conv, std::span<const double> theta, Rows<const T> in, Rows<T> out, Index n,
                     Index D, Kept keep_in, Kept keep_out) {
  const std::vector<Tap> taps = taps_of(conv);
  std::vector<T> c;
  std::vector<const T*> x;
  for (Index i = 0; i < n; ++i) {
    c.clear();
    x.clear();
    if (kept_at(keep_out, i))
      for_each_tap(conv, taps, keep_in, i, [&](std::size_t f, Index from) {
        c.push_back(static_cast<T>(theta[f]));
        x.push_back(in[from]);
      });
    combine(c, x, out[i], D);
  }
}

// dtheta(f) += sum of x(in) dy(out)
template <class T>
void add_dtheta(const Convolution& conv, Rows<const T> in, Rows<const T> dy, Index n, Index D, Kept keep_in,
                Kept keep_out, std::span<double> dtheta) {
  const std::vector<Tap> taps = taps_of(conv);
  if (conv.axis == primal::Axis::feature) {
    PaddedGrid<T> x(conv), slopes(conv);
    for (Index i = 0; i < n; ++i) {
      if (!kept_at(keep_out, i)) continue;
      x.load(in[i]);
      slopes.load(dy[i]);
      for (const Tap& tap : taps) dtheta[tap.f] += static_cast<double>(dot<T>(x.at(tap), slopes.origin(), x.length()));
    }
    return;
  }
  for (Index i = 0; i < n; ++i)
    if (kept_at(keep_out, i))
      for_each_tap(conv, taps, keep_in, i,
                   [&](std::size_t f, Index from) { dtheta[f] += static_cast<double>(dot<T>(in[from], dy[i], D)); });
}

}  // namespace

Convolution over(const primal::Conv1d& conv, Index n, Index D) {
  return {{1, conv.axis == primal::Axis::feature ? D : n}, {1, conv.size}, conv.axis};
}

Convolution over(const primal::Conv2d& conv, Index n, Index D) {
  const Index cells = conv.axis == primal::Axis::feature ? D : n;
  return {conv.grid.empty() ? primal::most_square_grid(cells) : conv.grid, conv.size, conv.axis};
}

template <class T>
void convolve(const Convolution& conv, std::span<const double> theta, Rows<const T> in, Rows<T> out, Index n, Index D,
              Kept keep_in, Kept keep_out) {
  if (conv.axis == primal::Axis::feature)
    convolve_features(conv, theta, in, out, n, D, keep_out);
  else
    convolve_tokens(conv, theta, in, out, n, D, keep_in, keep_out);
}

// dx is a convolution of dy with the kernel reversed. Over features each row is copied before it is written, so that
// the same memory serves.
template <class T>
void convolve_pullback(const Convolution& conv, std::span<const double> theta, Rows<const T> in, Rows<T> gradient,
                       Index n, Index D, Kept keep_in, Kept keep_out, std::span<double> dtheta) {
  if (!dtheta.empty()) add_dtheta<T>(conv, in, gradient, n, D, keep_in, keep_out, dtheta);
  const std::vector<double> reversed(theta.rbegin(), theta.rend());
  if (conv.axis == primal::Axis::feature) {
    convolve_features<T>(conv, reversed, gradient, gradient, n, D, keep_out);
    return;
  }
  const Buffer<T> dy(n, D);
  for (Index i = 0; i < n; ++i) std::copy_n(gradient[i], D, dy.rows()[i]);
  convolve_tokens<T>(conv, reversed, dy.rows(), gradient, n, D, keep_out, keep_in);
}

template void convolve(const Convolution&, std::span<const double>, Rows<const float>, Rows<float>, Index, Index, Kept,
                       Kept);
template void convolve(const Convolution&, std::span<const double>, Rows<const double>, Rows<double>, Index, Index,
                       Kept, Kept);
template void convolve_pullback(const Convolution&, std::span<const double>, Rows<const float>, Rows<float>, Index,
                                Index, Kept, Kept, std::span<double>);
template void convolve_pullback(const Convolution&, std::span<const double>, Rows<const double>, Rows<double>, Index,
                                Index, Kept, Kept, std::span<double>);

}  // namespace saddle::kernels::stages
