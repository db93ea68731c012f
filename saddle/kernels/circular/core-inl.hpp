// The table of core.hpp for one instruction set: ways in and out of signals, and the direct sums.
#if defined(SADDLE_KERNELS_CIRCULAR_CORE_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_CIRCULAR_CORE_INL_HPP_
#undef SADDLE_KERNELS_CIRCULAR_CORE_INL_HPP_
#else
#define SADDLE_KERNELS_CIRCULAR_CORE_INL_HPP_
#endif

#include <algorithm>
#include <cstring>

#include "saddle/kernels/circular/fft-inl.hpp"
#include "saddle/kernels/simd/exp-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::circular::HWY_NAMESPACE {

// Runs of a power of two, up to a whole row, are a few moves, where memcpy would be called.
template <Index COUNT, class T>
HWY_INLINE void copy_run(const T* from, T* to, Index count) {
  if (count == COUNT) {
    std::memcpy(to, from, static_cast<std::size_t>(COUNT) * sizeof(T));
  } else if constexpr (COUNT > 1) {
    copy_run<COUNT / 2>(from, to, count);
  } else {
    for (Index c = 0; c < count; ++c) to[c] = from[c];
  }
}

// Rows of a head may be far apart in memory, too far for the hardware to see them coming.
inline constexpr Index rows_ahead = 16;
template <int WRITE, class T>
HWY_INLINE void prefetch_row(const Run<T>& run, Index i, Index end) {
  if (i + rows_ahead >= end) return;
  const T* const row = run.data + (i + rows_ahead) * run.stride;
  __builtin_prefetch(row, WRITE);
  for (Index c = 64 / static_cast<Index>(sizeof(T)); c < run.count; c += 64 / static_cast<Index>(sizeof(T)))
    __builtin_prefetch(row + c, WRITE);
}

template <class T>
void load(std::span<const Run<const T>> runs, Index begin, Index end, Index length, const T* factor, T* x) {
  const Tag<T> d;
  Index covered = 0;
  for (const auto& run : runs) covered += run.count;
  std::fill_n(x, begin * width<T>, T{0});
  for (Index i = begin; i < end; ++i) {
    T* const row = x + i * width<T>;
    if (covered < width<T>) store_point<T>({hn::Zero(d), hn::Zero(d)}, row);
    for (const auto& run : runs) {
      prefetch_row<0>(run, i, end);
      copy_run<width<T>>(run.data + i * run.stride, row + run.lane, run.count);
    }
    if (!factor) continue;
    const Point<T> p = load_point(row);
    const Vec<T> f = hn::Set(d, factor[i]);
    store_point<T>({hn::Mul(f, p.re), hn::Mul(f, p.im)}, row);
  }
  std::fill(x + end * width<T>, x + length * width<T>, T{0});
}

template <bool ADD, class T>
void store(const T* x, std::span<const Run<T>> runs, Index begin, Index end, Fold fold, T scale, const T* factor) {
  const Tag<T> d;
  HWY_ALIGN T row[static_cast<std::size_t>(width<T>)];
  for (Index i = begin; i < end; ++i) {
    Point<T> p = load_point(x + i * width<T>);
    if (i >= fold.begin && i < fold.end) p = plus(p, load_point(x + (i + fold.shift) * width<T>));
    const Vec<T> f = hn::Set(d, factor ? scale * factor[i] : scale);
    store_point<T>({hn::Mul(f, p.re), hn::Mul(f, p.im)}, row);
    for (const auto& run : runs) {
      T* const to = run.data + i * run.stride;
      prefetch_row<1>(run, i, end);
      if constexpr (ADD) {
        for (Index c = 0; c < run.count; ++c) to[c] += row[run.lane + c];
      } else {
        copy_run<width<T>>(row + run.lane, to, run.count);
      }
    }
  }
}

template <class T>
void toeplitz(const T* a, const T* b, Index depth, T* c, Index rows, Index stride, Index vectors) {
  simd::multiply_wide(a, Index{-1}, b, stride, depth, c, stride, rows, vectors);
}

// Each row of b is read ROWS times, from the cache: loads and multiplications keep pace.
template <int ROWS, class T>
HWY_INLINE void match_rows(const T* a, const T* b, Index depth, T* sums, Index stride, Index vectors) {
  const Tag<T> d;
  Vec<T> sum[ROWS];
  SADDLE_UNROLL(8)
  for (int r = 0; r < ROWS; ++r) sum[r] = hn::Zero(d);
  for (Index v = 0; v < vectors; ++v)
    for (Index k = 0; k < depth; ++k) {
      const Index at = k * stride + v * lanes<T>;
      const Vec<T> x = hn::LoadU(d, a + at);
      SADDLE_UNROLL(8)
      for (int r = 0; r < ROWS; ++r) sum[r] = hn::MulAdd(x, hn::LoadU(d, b + at - r * stride), sum[r]);
    }
  SADDLE_UNROLL(8)
  for (int r = 0; r < ROWS; ++r) sums[r] = hn::GetLane(hn::SumOfLanes(d, sum[r]));
}

template <class T>
void match(const T* a, const T* b, Index depth, T* sums, Index rows, Index stride, Index vectors) {
  Index r = 0;
  for (; r + 8 <= rows; r += 8) match_rows<8>(a, b - r * stride, depth, sums + r, stride, vectors);
  for (; r < rows; ++r) match_rows<1>(a, b - r * stride, depth, sums + r, stride, vectors);
}

template <class T>
void inner(const Run<const T>& a, const Run<const T>& b, Index begin, Index end, T* sums) {
  const Tag<T> d;
  for (Index i = begin; i < end; ++i) {
    const T *const x = a.data + i * a.stride, *const y = b.data + i * b.stride;
    Vec<T> sum = hn::Zero(d);
    Index c = 0;
    for (; c + lanes<T> <= a.count; c += lanes<T>) sum = hn::MulAdd(hn::LoadU(d, x + c), hn::LoadU(d, y + c), sum);
    sums[i] = hn::GetLane(hn::SumOfLanes(d, sum));
    for (; c < a.count; ++c) sums[i] += x[c] * y[c];
  }
}

template <class T>
void exponentials(const T* z, Index count, T top, T* e) {
  const Tag<T> d;
  const Vec<T> shift = hn::Set(d, top), least = hn::Set(d, T{-800});
  const auto weight = [&](Vec<T> x) HWY_ATTR {
    const Vec<T> t = hn::Sub(x, shift);
    return simd::exp_fast(d, hn::IfThenElse(hn::Lt(t, least), least, t));  // which takes no -inf
  };
  Index i = 0;
  for (; i + lanes<T> <= count; i += lanes<T>) hn::StoreU(weight(hn::LoadU(d, z + i)), d, e + i);
  if (i == count) return;
  HWY_ALIGN T piece[static_cast<std::size_t>(lanes<T>)] = {};
  std::copy(z + i, z + count, piece);
  hn::Store(weight(hn::Load(d, piece)), d, piece);
  std::copy_n(piece, count - i, e + i);
}

template <class T>
const Core<T>& table(Isa isa) {
  static const Core<T> core{isa,        lanes<T>,      load<T>,        store<false, T>, store<true, T>,
                            analyse<T>, synthesise<T>, convolve<T>,    gradients<T>,    toeplitz<T>,
                            match<T>,   inner<T>,      exponentials<T>};
  return core;
}

}  // namespace saddle::kernels::circular::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
