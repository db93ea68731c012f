// Register tiles: small matrix products whose columns are vector lanes, and transposes in and out of that order.
#if defined(SADDLE_KERNELS_SIMD_TILE_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_SIMD_TILE_INL_HPP_
#undef SADDLE_KERNELS_SIMD_TILE_INL_HPP_
#else
#define SADDLE_KERNELS_SIMD_TILE_INL_HPP_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "saddle/base/view.hpp"

#ifndef SADDLE_UNROLL
#if HWY_TARGET == HWY_SCALAR  // GCC refuses the pragma on loops that vanish
#define SADDLE_UNROLL(n)
#else
#define SADDLE_PRAGMA(text) _Pragma(#text)
#define SADDLE_UNROLL(n) SADDLE_PRAGMA(GCC unroll n)
#endif
#endif

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A tile of tile_rows x tile_vectors accumulators leaves registers for one row of b and a broadcast.
inline constexpr int tile_rows = 6;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_SCALAR
inline constexpr int tile_vectors = 4;
#else
inline constexpr int tile_vectors = 2;
#endif

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vector = hn::Vec<Tag<T>>;
template <class T>
inline constexpr Index lanes = HWY_LANES(T);
template <class D>
inline constexpr Index lanes_of = static_cast<Index>(hn::MaxLanes(D()));

// For rows of so few elements that half a vector holds them. Processors that send whole vectors through their units in
// two halves then take half the time; elsewhere there is nothing to win.
#if HWY_TARGET == HWY_AVX3
template <class T>
using NarrowTag = hn::Half<Tag<T>>;
#else
template <class T>
using NarrowTag = Tag<T>;
#endif

// How the broadcast operand lies in memory: element (row, k) is a[row * stride + k] or a[k * stride + row].
enum class Along { k, row };

// c [ROWS, VECTORS] += a [ROWS, depth] b [depth, VECTORS * lanes], b with the given row stride.
template <int ROWS, int VECTORS, Along A, class T, class D = Tag<T>>
HWY_INLINE void multiply(const T* HWY_RESTRICT a, Index a_stride, const T* HWY_RESTRICT b, Index b_stride, Index depth,
                         hn::Vec<D> (&c)[ROWS][VECTORS]) {
  const D d;
  SADDLE_UNROLL(4)
  for (Index k = 0; k < depth; ++k) {
    hn::Vec<D> row[VECTORS];
    SADDLE_UNROLL(16)
    for (int v = 0; v < VECTORS; ++v) row[v] = hn::LoadU(d, b + k * b_stride + v * lanes_of<D>);
    SADDLE_UNROLL(16)
    for (int i = 0; i < ROWS; ++i) {
      const hn::Vec<D> x = hn::Set(d, A == Along::k ? a[i * a_stride + k] : a[k * a_stride + i]);
      SADDLE_UNROLL(16)
      for (int v = 0; v < VECTORS; ++v) c[i][v] = hn::MulAdd(x, row[v], c[i][v]);
    }
  }
}

// c [ROWS, VECTORS * lanes] += a b, c in memory. The product is summed on its own first: over many blocks errors then
// grow with the root of their number, not of all terms.
template <int ROWS, int VECTORS, Along A, class T, class D = Tag<T>>
HWY_INLINE void multiply_add(const T* HWY_RESTRICT a, Index a_stride, const T* HWY_RESTRICT b, Index b_stride,
                             Index depth, T* HWY_RESTRICT c, Index c_stride) {
  const D d;
  hn::Vec<D> sum[ROWS][VECTORS];
  SADDLE_UNROLL(16)
  for (int i = 0; i < ROWS; ++i) SADDLE_UNROLL(16)
  for (int v = 0; v < VECTORS; ++v) sum[i][v] = hn::Zero(d);
  multiply<ROWS, VECTORS, A, T, D>(a, a_stride, b, b_stride, depth, sum);
  SADDLE_UNROLL(16)
  for (int i = 0; i < ROWS; ++i) SADDLE_UNROLL(16)
  for (int v = 0; v < VECTORS; ++v) {
    T* at = c + i * c_stride + v * lanes_of<D>;
    hn::StoreU(hn::Add(hn::LoadU(d, at), sum[i][v]), d, at);
  }
}

// Calls f(integral_constant<int, n>) for a run-time n in [1, tile_rows].
template <class F>
HWY_INLINE void with_rows(Index n, F&& f) {
  switch (n) {
    case 1: f(std::integral_constant<int, 1>{}); break;
    case 2: f(std::integral_constant<int, 2>{}); break;
    case 3: f(std::integral_constant<int, 3>{}); break;
    case 4: f(std::integral_constant<int, 4>{}); break;
    case 5: f(std::integral_constant<int, 5>{}); break;
    default: f(std::integral_constant<int, 6>{}); break;
  }
}

// c [rows, VECTORS * lanes] += a [rows, depth] b [depth, ..] with the stride of c and b equal to the width of a whole
// tile.
template <Along A, class T, int VECTORS = tile_vectors>
HWY_NOINLINE void multiply_panel(const T* a, Index a_stride, const T* b, Index depth, T* c, Index rows) {
  constexpr Index width = tile_vectors * lanes<T>;
  for (Index i = 0; i < rows; i += tile_rows)
    with_rows(std::min<Index>(tile_rows, rows - i), [&](auto n) HWY_ATTR {
      multiply_add<n, VECTORS, A>(a + (A == Along::k ? i * a_stride : i), a_stride, b, width, depth, c + i * width,
                                  width);
    });
}

// c [rows, VECTORS * lanes] += a [rows, depth] b: rows of c and b of any stride. Few vectors take more rows at once, so
// that there are always enough independent sums.
template <int VECTORS, class T, class D = Tag<T>>
HWY_NOINLINE void multiply_rows(const T* a, Index a_stride, const T* b, Index b_stride, Index depth, T* c,
                                Index c_stride, Index rows) {
  constexpr int many = VECTORS >= 3 ? tile_rows : VECTORS == 2 ? (tile_vectors == 4 ? 12 : 6) : 12;
  Index i = 0;
  for (; i + many <= rows; i += many)
    multiply_add<many, VECTORS, Along::k, T, D>(a + i * a_stride, a_stride, b, b_stride, depth, c + i * c_stride,
                                                c_stride);
  if constexpr (many > tile_rows)
    for (; i + tile_rows <= rows; i += tile_rows)
      multiply_add<tile_rows, VECTORS, Along::k, T, D>(a + i * a_stride, a_stride, b, b_stride, depth, c + i * c_stride,
                                                       c_stride);
  for (; i + 2 <= rows; i += 2)
    multiply_add<2, VECTORS, Along::k, T, D>(a + i * a_stride, a_stride, b, b_stride, depth, c + i * c_stride,
                                             c_stride);
  for (; i < rows; ++i)
    multiply_add<1, VECTORS, Along::k, T, D>(a + i * a_stride, a_stride, b, b_stride, depth, c + i * c_stride,
                                             c_stride);
}

// The same for a width in vectors known at run time.
template <class T>
HWY_INLINE void multiply_wide(const T* a, Index a_stride, const T* b, Index b_stride, Index depth, T* c, Index c_stride,
                              Index rows, Index vectors) {
  Index v = 0;
  for (; v + tile_vectors <= vectors; v += tile_vectors)
    multiply_rows<tile_vectors>(a, a_stride, b + v * lanes<T>, b_stride, depth, c + v * lanes<T>, c_stride, rows);
  b += v * lanes<T>;
  c += v * lanes<T>;
  switch (vectors - v) {
    case 3: multiply_rows<3>(a, a_stride, b, b_stride, depth, c, c_stride, rows); break;
    case 2: multiply_rows<2>(a, a_stride, b, b_stride, depth, c, c_stride, rows); break;
    case 1: multiply_rows<1>(a, a_stride, b, b_stride, depth, c, c_stride, rows); break;
    default: break;
  }
}

#if HWY_TARGET == HWY_SCALAR

// to [columns, to_stride] = transpose of from [rows, columns], see below.
template <class T, class Change, class Change1>
void transpose(const T* from, Index from_stride, Index rows, Index columns, T* to, Index to_stride, Index padded_rows,
               Change&&, Change1&& change1) {
  for (Index i = 0; i < padded_rows; ++i)
    for (Index c = 0; c < columns; ++c) to[c * to_stride + i] = i < rows ? change1(from[i * from_stride + c], c) : T{0};
}

template <class T>
void transpose_back(const T* from, Index from_stride, const T* factor, T* to, Index to_stride, Index rows,
                    Index columns) {
  for (Index i = 0; i < rows; ++i)
    for (Index c = 0; c < columns; ++c) to[i * to_stride + c] = factor[i] * from[c * from_stride + i];
}

#else

// Rows of a 128-bit block: 4 floats or 2 doubles.
template <class T>
inline constexpr Index block = 16 / static_cast<Index>(sizeof(T));

// Transposes blocks of block x block elements inside `block` vectors: afterwards vector c holds, in its 128-bit block
// b, column block * b + c of the rows.
template <class T>
HWY_INLINE void transpose_blocks(Vector<T> (&x)[block<T>]) {
  const Tag<T> d;
  if constexpr (block<T> == 4) {
    const hn::RepartitionToWide<Tag<T>> dw;
    const auto a = hn::BitCast(dw, hn::InterleaveLower(d, x[0], x[1]));
    const auto b = hn::BitCast(dw, hn::InterleaveUpper(d, x[0], x[1]));
    const auto e = hn::BitCast(dw, hn::InterleaveLower(d, x[2], x[3]));
    const auto f = hn::BitCast(dw, hn::InterleaveUpper(d, x[2], x[3]));
    x[0] = hn::BitCast(d, hn::InterleaveLower(dw, a, e));
    x[1] = hn::BitCast(d, hn::InterleaveUpper(dw, a, e));
    x[2] = hn::BitCast(d, hn::InterleaveLower(dw, b, f));
    x[3] = hn::BitCast(d, hn::InterleaveUpper(dw, b, f));
  } else {
    const auto a = hn::InterleaveLower(d, x[0], x[1]);
    x[1] = hn::InterleaveUpper(d, x[0], x[1]);
    x[0] = a;
  }
}

// to [columns, to_stride] = transpose of from [rows, columns]; `rows` is padded with zeros up to padded_rows, a
// multiple of block. change(vector, first column) is applied to whole vectors of a row, change1 to single elements.
template <class T, class Change, class Change1>
HWY_INLINE void transpose(const T* from, Index from_stride, Index rows, Index columns, T* to, Index to_stride,
                          Index padded_rows, Change&& change, Change1&& change1) {
  const Tag<T> d;
  constexpr Index L = lanes<T>, S = block<T>;
  const Index whole = columns / L * L;
  HWY_ALIGN T piece[S][L];
  for (Index i = 0; i < padded_rows; i += S) {
    for (Index c = 0; c < whole; c += L) {
      Vector<T> x[S];
      SADDLE_UNROLL(4)
      for (Index s = 0; s < S; ++s)
        x[s] = i + s < rows ? change(hn::LoadU(d, from + (i + s) * from_stride + c), c) : hn::Zero(d);
      transpose_blocks<T>(x);
      SADDLE_UNROLL(4)
      for (Index s = 0; s < S; ++s) hn::Store(x[s], d, piece[s]);
      SADDLE_UNROLL(16)
      for (Index l = 0; l < L; ++l) std::memcpy(to + (c + l) * to_stride + i, piece[l % S] + l / S * S, 16);
    }
    for (Index c = whole; c < columns; ++c)
      for (Index s = 0; s < S; ++s)
        to[c * to_stride + i + s] = i + s < rows ? change1(from[(i + s) * from_stride + c], c) : T{0};
  }
}

// to [rows, columns] = transpose of from [columns, from_stride], each row times factor[row]. `from` has room for whole
// blocks of rows.
template <class T>
HWY_INLINE void transpose_back(const T* from, Index from_stride, const T* factor, T* to, Index to_stride, Index rows,
                               Index columns) {
  const Tag<T> d;
  constexpr Index L = lanes<T>, S = block<T>;
  HWY_ALIGN T piece[S][L];
  const Index whole = columns / S * S;
  for (Index i = 0; i < rows; i += L) {
    const Vector<T> f = hn::LoadU(d, factor + i);
    for (Index c = 0; c < whole; c += S) {
      Vector<T> x[S];
      SADDLE_UNROLL(4)
      for (Index s = 0; s < S; ++s) x[s] = hn::Mul(f, hn::LoadU(d, from + (c + s) * from_stride + i));
      transpose_blocks<T>(x);
      SADDLE_UNROLL(4)
      for (Index s = 0; s < S; ++s) hn::Store(x[s], d, piece[s]);
      for (Index l = 0; l < std::min(L, rows - i); ++l)
        std::memcpy(to + (i + l) * to_stride + c, piece[l % S] + l / S * S, 16);
    }
    for (Index c = whole; c < columns; ++c)
      for (Index l = 0; l < std::min(L, rows - i); ++l)
        to[(i + l) * to_stride + c] = factor[i + l] * from[c * from_stride + i + l];
  }
}

#endif

}  // namespace saddle::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
