// Matrix products of any shape out of register tiles, and transposes for them.
#if defined(SADDLE_KERNELS_LINEAR_PRODUCT_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_LINEAR_PRODUCT_INL_HPP_
#undef SADDLE_KERNELS_LINEAR_PRODUCT_INL_HPP_
#else
#define SADDLE_KERNELS_LINEAR_PRODUCT_INL_HPP_
#endif

#include "saddle/kernels/simd/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::linear_kernel::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace simd = saddle::kernels::HWY_NAMESPACE;
using simd::Along;
using simd::lanes;
using simd::Tag;
template <class T>
using Vec = simd::Vector<T>;

// c [rows,columns] = scale (c + a b) with a [rows,depth], or a^T where A is Along::row, and b [depth,columns].
// `columns` is a multiple of the lanes.
template <class T>
struct Product {
  Index rows, columns, depth;
  const T* a;
  Index a_stride;
  const T* b;
  Index b_stride;
  T* c;
  Index c_stride;
  bool add = false;          // else c starts from 0
  const T* scale = nullptr;  // [rows]
};

// Tokens are summed up from 0 in registers and then added to c: long sums in c lose less that way.
template <int ROWS, int VECTORS, Along A, class T>
HWY_NOINLINE void product_tile(const Product<T>& p, Index i, Index column) {
  const Tag<T> d;
  Vec<T> sum[ROWS][VECTORS];
  SADDLE_UNROLL(16)
  for (int r = 0; r < ROWS; ++r) SADDLE_UNROLL(8)
  for (int v = 0; v < VECTORS; ++v) sum[r][v] = hn::Zero(d);
  simd::multiply<ROWS, VECTORS, A>(p.a + (A == Along::k ? i * p.a_stride : i), p.a_stride, p.b + column, p.b_stride,
                                   p.depth, sum);
  SADDLE_UNROLL(16)
  for (int r = 0; r < ROWS; ++r) SADDLE_UNROLL(8)
  for (int v = 0; v < VECTORS; ++v) {
    T* const c = p.c + (i + r) * p.c_stride + column + v * lanes<T>;
    if (p.add) sum[r][v] = hn::Add(hn::LoadU(d, c), sum[r][v]);
    if (p.scale) sum[r][v] = hn::Mul(hn::Set(d, p.scale[i + r]), sum[r][v]);
    hn::StoreU(sum[r][v], d, c);
  }
}

// Narrow products take more rows at once, so that there are always enough independent sums.
template <int VECTORS, Along A, class T>
HWY_INLINE void product_columns(const Product<T>& p, Index column) {
  constexpr int most = 2 * VECTORS <= simd::tile_vectors ? 8 : 6;
  Index i = 0;
  const auto tiles = [&]<int ROWS>(std::integral_constant<int, ROWS>) HWY_ATTR {
    for (; i + ROWS <= p.rows; i += ROWS) product_tile<ROWS, VECTORS, A>(p, i, column);
  };
  tiles(std::integral_constant<int, most>{});
  tiles(std::integral_constant<int, 4>{});
  tiles(std::integral_constant<int, 2>{});
  tiles(std::integral_constant<int, 1>{});
}

template <Along A, class T>
HWY_NOINLINE void product(const Product<T>& p) {
  constexpr Index L = lanes<T>;
  Index column = 0;
  for (; column + simd::tile_vectors * L <= p.columns; column += simd::tile_vectors * L)
    product_columns<simd::tile_vectors, A>(p, column);
  if constexpr (simd::tile_vectors > 2)
    if (column + 2 * L <= p.columns) {
      product_columns<2, A>(p, column);
      column += 2 * L;
    }
  if (column < p.columns) product_columns<1, A>(p, column);
}

#if HWY_TARGET != HWY_SCALAR
// Elements [column, column + block) of `lanes` rows, in the order that transpose_blocks wants: 128-bit block b of
// vector s is row block * b + s.
template <class T>
HWY_INLINE Vec<T> load_blocks(const T* from, Index stride) {
  const Tag<T> d;
  constexpr Index S = 16 / static_cast<Index>(sizeof(T)), L = lanes<T>;
  if constexpr (L == 4 * S) {
    const hn::Half<Tag<T>> half;
    const hn::Half<decltype(half)> quarter;
    const auto at = [&](Index b) HWY_ATTR { return hn::LoadU(quarter, from + b * S * stride); };
    return hn::Combine(d, hn::Combine(half, at(3), at(2)), hn::Combine(half, at(1), at(0)));
  } else if constexpr (L == 2 * S) {
    const hn::Half<Tag<T>> half;
    return hn::Combine(d, hn::LoadU(half, from + S * stride), hn::LoadU(half, from));
  } else {
    return hn::LoadU(d, from);
  }
}
#endif

// to [columns,rows] = transpose of from [rows,columns].
template <class T>
HWY_NOINLINE void transpose(const T* from, Index from_stride, Index rows, Index columns, T* to, Index to_stride) {
  Index i = 0, whole = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr Index S = 16 / static_cast<Index>(sizeof(T)), L = lanes<T>;
  const Tag<T> d;
  whole = columns / S * S;
  for (; i + L <= rows; i += L)
    for (Index c = 0; c < whole; c += S) {
      Vec<T> x[S];
      SADDLE_UNROLL(4)
      for (Index s = 0; s < S; ++s) x[s] = load_blocks<T>(from + (i + s) * from_stride + c, from_stride);
      simd::transpose_blocks<T>(x);
      SADDLE_UNROLL(4)
      for (Index s = 0; s < S; ++s) hn::StoreU(x[s], d, to + (c + s) * to_stride + i);
    }
#endif
  for (Index c = 0; c < columns; ++c)
    for (Index r = c < whole ? i : 0; r < rows; ++r) to[c * to_stride + r] = from[r * from_stride + c];
}

// Sum over x [n] y [n], n a multiple of the lanes.
template <class T>
HWY_INLINE T inner(const T* HWY_RESTRICT x, const T* HWY_RESTRICT y, Index n) {
  const Tag<T> d;
  Vec<T> sum = hn::Zero(d);
  for (Index c = 0; c < n; c += lanes<T>) sum = hn::MulAdd(hn::LoadU(d, x + c), hn::LoadU(d, y + c), sum);
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// y [n] += factor x [n], n a multiple of the lanes.
template <class T>
HWY_INLINE void add_scaled(T factor, const T* HWY_RESTRICT x, Index n, T* HWY_RESTRICT y) {
  const Tag<T> d;
  const Vec<T> f = hn::Set(d, factor);
  for (Index c = 0; c < n; c += lanes<T>) hn::StoreU(hn::MulAdd(f, hn::LoadU(d, x + c), hn::LoadU(d, y + c)), d, y + c);
}

// y [width] += sum_t factor_t x_t with x [count, stride]; width a multiple of the lanes.
template <class T>
HWY_INLINE void add_rows(const T* factor, const T* x, Index stride, Index count, Index width, T* y) {
  const Tag<T> d;
  for (Index c = 0; c < width; c += lanes<T>) {
    Vec<T> even = hn::Zero(d), odd = hn::Zero(d);
    Index t = 0;
    for (; t + 2 <= count; t += 2) {
      even = hn::MulAdd(hn::Set(d, factor[t]), hn::LoadU(d, x + t * stride + c), even);
      odd = hn::MulAdd(hn::Set(d, factor[t + 1]), hn::LoadU(d, x + (t + 1) * stride + c), odd);
    }
    if (t < count) even = hn::MulAdd(hn::Set(d, factor[t]), hn::LoadU(d, x + t * stride + c), even);
    hn::StoreU(hn::Add(hn::LoadU(d, y + c), hn::Add(even, odd)), d, y + c);
  }
}

}  // namespace saddle::kernels::linear_kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
