// Products with lanes for keys: of weights and values, lane by lane, and sums over the keys.
#if defined(SADDLE_KERNELS_HYLA_NETWORK_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_HYLA_NETWORK_INL_HPP_
#undef SADDLE_KERNELS_HYLA_NETWORK_INL_HPP_
#else
#define SADDLE_KERNELS_HYLA_NETWORK_INL_HPP_
#endif

#include <limits>

#include "saddle/kernels/hyla/core.hpp"
#include "saddle/kernels/simd/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::hyla::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace simd = saddle::kernels::HWY_NAMESPACE;
using simd::lanes;
using simd::Tag;
template <class T>
using Vec = simd::Vector<T>;

// W, numbers in a row of a tile.
template <class T>
inline constexpr Index width = hyla::tile_vectors* lanes<T>;

// Rows of a register tile beside four columns.
#if HWY_TARGET == HWY_AVX3
inline constexpr int block_rows = 4;
#else
inline constexpr int block_rows = 2;
#endif

// f(n, first) over [0,count) in pieces of n = MOST, then 2, then 1.
template <int MOST, class F>
HWY_INLINE void in_pieces(Index count, F&& f) {
  Index i = 0;
  for (; i + MOST <= count; i += MOST) f(std::integral_constant<int, MOST>{}, i);
  if constexpr (MOST > 2)
    for (; i + 2 <= count; i += 2) f(std::integral_constant<int, 2>{}, i);
  if constexpr (MOST > 1)
    for (; i < count; ++i) f(std::integral_constant<int, 1>{}, i);
}

// sums (x, y) += <a_x, b_y>, where a sum is a vector that is reduced later: row x of a at x a_stride, of b
// [columns][W], of sums at x sums_stride.
template <class T>
void add_products(const T* a, Index a_stride, Index rows, const T* b, Index columns, Index vectors, T* sums,
                  Index sums_stride) {
  const Tag<T> d;
  in_pieces<block_rows>(rows, [&](auto n_rows, Index x) HWY_ATTR {
    constexpr int R = decltype(n_rows)::value;
    in_pieces<4>(columns, [&](auto n_columns, Index y) HWY_ATTR {
      constexpr int C = decltype(n_columns)::value;
      Vec<T> sum[R][C];
      SADDLE_UNROLL(4)
      for (int r = 0; r < R; ++r) SADDLE_UNROLL(4)
      for (int c = 0; c < C; ++c) sum[r][c] = hn::LoadU(d, sums + (x + r) * sums_stride + (y + c) * lanes<T>);
      for (Index v = 0; v < vectors; ++v) {
        Vec<T> column[C];
        SADDLE_UNROLL(4)
        for (int c = 0; c < C; ++c) column[c] = hn::LoadU(d, b + (y + c) * width<T> + v * lanes<T>);
        SADDLE_UNROLL(4)
        for (int r = 0; r < R; ++r) {
          const Vec<T> w = hn::LoadU(d, a + (x + r) * a_stride + v * lanes<T>);
          SADDLE_UNROLL(4)
          for (int c = 0; c < C; ++c) sum[r][c] = hn::MulAdd(w, column[c], sum[r][c]);
        }
      }
      SADDLE_UNROLL(4)
      for (int r = 0; r < R; ++r) SADDLE_UNROLL(4)
      for (int c = 0; c < C; ++c) hn::StoreU(sum[r][c], d, sums + (x + r) * sums_stride + (y + c) * lanes<T>);
    });
  });
}

// Hidden values z [rows][E][W] = sum_h a_h v_h, through the relu if there is one; a [rows][H][W], v [H][E][W].
template <class T>
void mix(const Problem<T>& p, const T* a, const T* v, Index rows, Index vectors, T* z) {
  const Tag<T> d;
  const Index H = p.H, E = p.E, W = width<T>;
  const Vec<T> least = hn::Set(d, p.network == Network::mlp_relu ? T{0} : -std::numeric_limits<T>::infinity());
  in_pieces<4>(rows, [&](auto n_rows, Index row) HWY_ATTR {
    constexpr int R = decltype(n_rows)::value;
    in_pieces<block_rows>(E, [&](auto n_columns, Index e) HWY_ATTR {
      constexpr int C = decltype(n_columns)::value;
      for (Index n = 0; n < vectors * lanes<T>; n += lanes<T>) {
        Vec<T> sum[R][C];
        SADDLE_UNROLL(4)
        for (int r = 0; r < R; ++r) SADDLE_UNROLL(4)
        for (int c = 0; c < C; ++c) sum[r][c] = hn::Zero(d);
        for (Index h = 0; h < H; ++h) {
          Vec<T> value[C];
          SADDLE_UNROLL(4)
          for (int c = 0; c < C; ++c) value[c] = hn::LoadU(d, v + (h * E + e + c) * W + n);
          SADDLE_UNROLL(4)
          for (int r = 0; r < R; ++r) {
            const Vec<T> w = hn::LoadU(d, a + ((row + r) * H + h) * W + n);
            SADDLE_UNROLL(4)
            for (int c = 0; c < C; ++c) sum[r][c] = hn::MulAdd(w, value[c], sum[r][c]);
          }
        }
        SADDLE_UNROLL(4)
        for (int r = 0; r < R; ++r) SADDLE_UNROLL(4)
        for (int c = 0; c < C; ++c) hn::StoreU(hn::Max(sum[r][c], least), d, z + ((row + r) * E + e + c) * W + n);
      }
    });
  });
}

// dz = 0 where z is not above 0.
template <class T>
void stop_at_zero(const T* z, Index count, T* dz) {
  const Tag<T> d;
  for (Index n = 0; n < count; n += lanes<T>)
    hn::StoreU(hn::IfThenElseZero(hn::Gt(hn::LoadU(d, z + n), hn::Zero(d)), hn::LoadU(d, dz + n)), d, dz + n);
}

// The way back through mix: da_h += sum_e dz_e v_he, dv_he += sum over rows of a_h dz_e.
template <class T>
void unmix(const Problem<T>& p, const T* a, const T* v, const T* dz, Index rows, Index vectors, T* da, T* dv) {
  const Tag<T> d;
  const Index H = p.H, E = p.E, W = width<T>;
  in_pieces<4>(rows, [&](auto n_rows, Index row) HWY_ATTR {
    constexpr int R = decltype(n_rows)::value;
    for (Index h = 0; h < H; ++h)
      for (Index n = 0; n < vectors * lanes<T>; n += lanes<T>) {
        Vec<T> weight[R], sum[R];
        SADDLE_UNROLL(4)
        for (int r = 0; r < R; ++r) {
          weight[r] = hn::LoadU(d, a + ((row + r) * H + h) * W + n);
          sum[r] = hn::LoadU(d, da + ((row + r) * H + h) * W + n);
        }
        for (Index e = 0; e < E; ++e) {
          const Index at = (h * E + e) * W + n;
          const Vec<T> value = hn::LoadU(d, v + at);
          Vec<T> total = hn::LoadU(d, dv + at);
          SADDLE_UNROLL(4)
          for (int r = 0; r < R; ++r) {
            const Vec<T> x = hn::LoadU(d, dz + ((row + r) * E + e) * W + n);
            sum[r] = hn::MulAdd(x, value, sum[r]);
            total = hn::MulAdd(weight[r], x, total);
          }
          hn::StoreU(total, d, dv + at);
        }
        SADDLE_UNROLL(4)
        for (int r = 0; r < R; ++r) hn::StoreU(sum[r], d, da + ((row + r) * H + h) * W + n);
      }
  });
}

}  // namespace saddle::kernels::hyla::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
