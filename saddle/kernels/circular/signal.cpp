#include "saddle/kernels/circular/signal.hpp"

#include "saddle/base/error.hpp"

namespace saddle::kernels::circular {

std::vector<Head> list_heads(const CircularShape& shape, const Index* lengths) {
  std::vector<Head> heads;
  for (Index b = 0; b < shape.B; ++b) {
    const Index n = lengths ? lengths[b] : shape.N;
    if (n < 0 || n > shape.N)
      throw InvalidArgument("sequence " + std::to_string(b) + " has length " + std::to_string(n) + " in a batch of " +
                                std::to_string(shape.N) + " tokens",
                            "lengths from 0 to " + std::to_string(shape.N));
    if (n == 0 || shape.D == 0) continue;
    for (Index h = 0; h < shape.H; ++h) heads.push_back({b, h, n});
  }
  return heads;
}

template <class T>
void clear_padding(const CircularShape& shape, const Index* lengths, const View<T, 4>& x, Index channels) {
  if (!lengths || !x) return;
  for (Index b = 0; b < shape.B; ++b)
    for (Index h = 0; h < shape.H; ++h)
      for (Index i = lengths[b]; i < shape.N; ++i) std::fill_n(&x(b, h, i, 0), channels, T{0});
}
template void clear_padding(const CircularShape&, const Index*, const View<float, 4>&, Index);
template void clear_padding(const CircularShape&, const Index*, const View<double, 4>&, Index);

Fold fold_of(Direction direction, Index n, Index length) {
  if (length == n) return {};
  // A convolution goes on beyond n; a correlation has its negative offsets at the end.
  return direction == Direction::convolution ? Fold{0, n - 1, n} : Fold{1, n, length - n};
}

template <class T>
void spread(const std::vector<Spread<const T>>& kernels, Index n, Index length, Index lanes, T* x) {
  std::fill_n(x, length * 2 * lanes, T{0});
  for (Index i = 0; i < n; ++i)
    for (const auto& w : kernels) std::fill_n(x + i * 2 * lanes + w.lane, w.count, w.data[i * w.stride]);
}
template void spread(const std::vector<Spread<const float>>&, Index, Index, Index, float*);
template void spread(const std::vector<Spread<const double>>&, Index, Index, Index, double*);

template <class T>
void collect(const T* x, const std::vector<Spread<T>>& kernels, Index n, Index lanes, Fold fold, T scale, bool add) {
  for (Index i = 0; i < n; ++i)
    for (const auto& w : kernels) {
      const T* const row = x + i * 2 * lanes + w.lane;
      T sum = 0;
      for (Index c = 0; c < w.count; ++c) sum += row[c];
      if (i >= fold.begin && i < fold.end)
        for (Index c = 0; c < w.count; ++c) sum += row[fold.shift * 2 * lanes + c];
      T& to = w.data[i * w.stride];
      to = add ? to + scale * sum : scale * sum;
    }
}
template void collect(const float*, const std::vector<Spread<float>>&, Index, Index, Fold, float, bool);
template void collect(const double*, const std::vector<Spread<double>>&, Index, Index, Fold, double, bool);

}  // namespace saddle::kernels::circular
