// Queries as the right operand of the scores. Included inside the target options of the files that use it.
#pragma once

#include "saddle/kernels/amx/tile-inl.hpp"

namespace saddle::kernels {
namespace {

// Word 2i from place i, word 2i + 1 from place 16 + i: two rows of 16 become pairs.
inline __m512i pair_order() {
  const __m512i even = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  return _mm512_or_si512(even, _mm512_slli_epi32(_mm512_add_epi32(even, _mm512_set1_epi32(16)), 16));
}

// Rows [count,width] as bfloat16: (x - shift) factor, rounded once, or as they are without a factor.
struct RowSource {
  AmxRows rows;
  const float* shift;
  const float* factor;
  Index count, width;

  // Columns [c, c + 32) of row i, zeros outside.
  __m512i load(Index i, Index c) const {
    if (i >= count) return _mm512_setzero_si512();
    if (factor == nullptr) return load_row(rows, i, c, width);
    __m512 part[2];
    for (Index h = 0; h < 2; ++h) {
      const Index at = c + 16 * h;
      const __mmask16 valid = first_of_16(width - at);
      const __m512 x = rows.half ? widen(_mm256_maskz_loadu_epi16(valid, rows.half[i] + at))
                                 : _mm512_maskz_loadu_ps(valid, rows.full[i] + at);
      part[h] = _mm512_mul_ps(_mm512_sub_ps(x, _mm512_maskz_loadu_ps(valid, shift + at)),
                              _mm512_maskz_loadu_ps(valid, factor + at));
    }
    return round_to_bf16(part[0], part[1]);
  }
};

inline RowSource query_rows(const AmxHead& head) { return {head.q, head.q_shift, head.q_factor, head.N, head.D}; }

// 32 rows from i0 as tiles [width/32][2][16][16][2]: pairs of columns by rows. Returns the largest norm.
inline float pack_column_pairs(const RowSource& from, Index i0, bool negate, BFloat16* to) {
  const __m512i sign = _mm512_set1_epi16(negate ? static_cast<short>(0x8000) : short{0});
  float largest = 0;
  for (Index h = 0; h < 2; ++h) {
    __m512 squares[16];
#pragma GCC unroll 16
    for (__m512& s : squares) s = _mm512_setzero_ps();
    for (Index c = 0; c < from.width; c += panel) {
      alignas(64) BFloat16 rows[tile_size];
      for (Index i = 0; i < tile; ++i)
        _mm512_store_si512(rows + i * panel, _mm512_xor_si512(sign, from.load(i0 + 16 * h + i, c)));
      __m512i r[16];
#pragma GCC unroll 16
      for (Index i = 0; i < tile; ++i) {
        r[i] = _mm512_load_si512(rows + i * panel);
        squares[i] = _mm512_dpbf16_ps(squares[i], __m512bh(r[i]), __m512bh(r[i]));
      }
      transpose(r);
      BFloat16* out = to + (c / panel * 2 + h) * tile_size;
#pragma GCC unroll 16
      for (Index i = 0; i < tile; ++i) _mm512_store_si512(out + i * panel, r[i]);
    }
    const float sum = largest_sum(squares);
    largest = sum > largest || sum != sum ? sum : largest;
  }
  return __builtin_sqrtf(largest);
}

}  // namespace
}  // namespace saddle::kernels
