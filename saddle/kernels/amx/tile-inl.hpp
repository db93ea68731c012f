// Vector and tile steps that the files of this folder share. Included inside the target options of each of them.
#pragma once

#include <immintrin.h>

#include "saddle/kernels/amx/panels.hpp"

namespace saddle::kernels {
namespace {

constexpr Index tile = 16;                 // rows of a tile, and floats in one of its rows
constexpr Index panel = 32;                // keys or queries of a step, and bfloat16 values in a row of a tile
constexpr Index tile_size = tile * panel;  // bfloat16 values in a tile
constexpr Index float_tile = tile * tile;  // floats in a tile

constexpr Index round_up(Index n, Index unit) { return (n + unit - 1) / unit * unit; }

// All eight tiles as 16 rows of 64 bytes, for as long as this lives.
class TileConfig {
 public:
  TileConfig() {
    alignas(64) Layout layout;
    for (int i = 0; i < 8; ++i) {
      layout.row_bytes[i] = 64;
      layout.rows[i] = 16;
    }
    // GCC 12 takes only the first 8 bytes as read.
    asm volatile("" : : "r"(&layout) : "memory");
    _tile_loadconfig(&layout);
  }
  ~TileConfig() { _tile_release(); }
  TileConfig(const TileConfig&) = delete;
  TileConfig& operator=(const TileConfig&) = delete;

 private:
  struct Layout {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  };
};

// GCC 12 does not know that tile loads read memory: earlier stores stay before this.
inline void before_tile_loads() { asm volatile("" : : : "memory"); }

// Tiles 0..3, 32 x 32 floats as [2][2][16][16].
[[gnu::always_inline]] inline void zero_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}
[[gnu::always_inline]] inline void load_sums(const float* from) {
  _tile_loadd(0, from, 64);
  _tile_loadd(1, from + float_tile, 64);
  _tile_loadd(2, from + 2 * float_tile, 64);
  _tile_loadd(3, from + 3 * float_tile, 64);
}
[[gnu::always_inline]] inline void store_sums(float* to) {
  _tile_stored(0, to, 64);
  _tile_stored(1, to + float_tile, 64);
  _tile_stored(2, to + 2 * float_tile, 64);
  _tile_stored(3, to + 3 * float_tile, 64);
}

// Adds 32 rows of a (tiles a0, a1) times 32 columns of b (tiles b0 and the next) over a depth of 32. kPassing: a is
// used once, so it is loaded past L1, which has no room for it.
template <bool kPassing>
[[gnu::always_inline]] inline void add_product(const BFloat16* a0, const BFloat16* a1, const BFloat16* b) {
  if constexpr (kPassing) {
    _tile_stream_loadd(4, a0, 64);
  } else {
    _tile_loadd(4, a0, 64);
  }
  _tile_loadd(6, b, 64);
  _tile_dpbf16ps(0, 4, 6);
  _tile_loadd(7, b + tile_size, 64);
  _tile_dpbf16ps(1, 4, 7);
  if constexpr (kPassing) {
    _tile_stream_loadd(5, a1, 64);
  } else {
    _tile_loadd(5, a1, 64);
  }
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

// Step d of depth to a 32 x 32 block of A B: rows of a in tiles [2][depth], b in tiles [depth][2].
template <bool kPassing>
[[gnu::always_inline]] inline void score_step(const BFloat16* a, const BFloat16* b, Index depth, float* to, Index d) {
  before_tile_loads();
  if (d == 0) zero_sums();
  add_product<kPassing>(a + d * tile_size, a + (depth + d) * tile_size, b + 2 * d * tile_size);
  if (d == depth - 1) store_sums(to);
}

// 16 x 16 of 32-bit elements.
inline void transpose(__m512i (&r)[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xDD);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xDD);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xDD);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xDD);
  }
}

inline __mmask32 first_of_32(Index count) {
  return count >= 32 ? ~__mmask32{0} : static_cast<__mmask32>((1u << (count > 0 ? count : 0)) - 1);
}
inline __mmask16 first_of_16(Index count) { return static_cast<__mmask16>(first_of_32(count)); }

inline __m512 widen(__m256i bf16) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16)); }
inline __m512i round_to_bf16(__m512 lo, __m512 hi) { return __m512i(_mm512_cvtne2ps_pbh(hi, lo)); }

// The columns [c, c + 32) of row i of rows [.,width] in bfloat16, zeros beyond the width.
inline __m512i load_row(const AmxRows& rows, Index i, Index c, Index width) {
  const __mmask32 valid = first_of_32(width - c);
  if (rows.half) return _mm512_maskz_loadu_epi16(valid, rows.half[i] + c);
  const float* from = rows.full[i] + c;
  return round_to_bf16(_mm512_maskz_loadu_ps(static_cast<__mmask16>(valid), from),
                       _mm512_maskz_loadu_ps(static_cast<__mmask16>(valid >> 16), from + 16));
}

// 2^t with relative error 1e-4, for weights that become bfloat16. NaN stays NaN; below 2^-126, where results would be
// denormal and slow, 0.
inline __m512 exp2_coarse(__m512 t) {
  const __m512 r = _mm512_reduce_ps(t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  __m512 p = _mm512_set1_ps(7.8024521e-2f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(2.2606716e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(6.9583354e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(9.9992520e-1f));
  return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(t, _mm512_set1_ps(-126), _CMP_NLT_UQ), p, t);
}

// The largest squared norm of 16 rows, given their sums of squares in 16 partial sums each.
inline float largest_sum(__m512 (&partial)[16]) {
  __m512i r[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = _mm512_castps_si512(partial[i]);
  transpose(r);
  __m512 sum = _mm512_castsi512_ps(r[0]);
#pragma GCC unroll 15
  for (int i = 1; i < 16; ++i) sum = _mm512_add_ps(sum, _mm512_castsi512_ps(r[i]));
  // A maximum would lose a NaN.
  if (_mm512_cmp_ps_mask(sum, sum, _CMP_UNORD_Q) != 0) return __builtin_nanf("");
  return _mm512_reduce_max_ps(sum);
}

}  // namespace
}  // namespace saddle::kernels
