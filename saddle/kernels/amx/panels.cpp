#include "saddle/kernels/amx/panels.hpp"

#include <hwy/base.h>

#include <algorithm>
#include <cmath>

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "saddle/kernels/amx/tile-inl.hpp"

namespace saddle::kernels {

namespace {

struct Source {
  const AmxRows& rows;
  Index count, width;
  const std::uint8_t* keep;

  bool exists(Index i) const { return i < count && (keep == nullptr || keep[i] != 0); }
  __m512i load(Index i, Index c) const { return exists(i) ? load_row(rows, i, c, width) : _mm512_setzero_si512(); }
};

// Into [count/16][width/32][16][32]; returns the largest norm of a row.
float pack_rows(const Source& from, BFloat16* to) {
  float largest = 0;
  bool finite = true;
  const Index padded = round_up(from.count, panel);
  for (Index i0 = 0; i0 < padded; i0 += tile) {
    __m512 squares[16];
#pragma GCC unroll 16
    for (__m512& s : squares) s = _mm512_setzero_ps();
    for (Index c = 0; c < from.width; c += panel, to += tile_size) {
      for (Index i = 0; i < tile; ++i) _mm512_store_si512(to + i * panel, from.load(i0 + i, c));
#pragma GCC unroll 16
      for (Index i = 0; i < tile; ++i) {
        const __m512i row = _mm512_load_si512(to + i * panel);
        squares[i] = _mm512_dpbf16_ps(squares[i], __m512bh(row), __m512bh(row));
      }
    }
    const float sum = largest_sum(squares);
    finite = finite && std::isfinite(sum);
    largest = std::max(largest, sum);
  }
  return finite ? std::sqrt(largest) : __builtin_nanf("");
}

// Into [count/32][width][32], width padded to 32.
void pack_columns(const Source& from, BFloat16* to) {
  constexpr __mmask32 odd = 0xAAAAAAAA;
  for (Index i0 = 0; i0 < from.count; i0 += panel)
    for (Index c = 0; c < from.width; c += panel, to += panel * panel) {
      __m512i even_rows[16], odd_rows[16];  // transposed: [p] lane i holds columns 2p, 2p+1 of row 2i or 2i+1
      for (Index i = 0; i < tile; ++i) even_rows[i] = from.load(i0 + 2 * i, c);
      transpose(even_rows);
      for (Index i = 0; i < tile; ++i) odd_rows[i] = from.load(i0 + 2 * i + 1, c);
      transpose(odd_rows);
      for (Index p = 0; p < tile; ++p) {
        const __m512i a = even_rows[p], b = odd_rows[p];
        _mm512_store_si512(to + 2 * p * panel, _mm512_mask_mov_epi16(a, odd, _mm512_slli_epi32(b, 16)));
        _mm512_store_si512(to + (2 * p + 1) * panel, _mm512_mask_mov_epi16(_mm512_srli_epi32(a, 16), odd, b));
      }
    }
}

}  // namespace

void AmxKeys::pack(Pass pass, Index K, Index D, Index E, const AmxRows& k, const AmxRows& v, const std::uint8_t* keep) {
  const Index rows = round_up(K, panel), depth = round_up(D, panel), width = round_up(E, panel);
  const Source keys{k, K, D, keep}, values{v, K, E, keep};
  max_norm_ = pack_rows(keys, key_rows_.reserve(rows * depth));
  if (pass == Pass::forward) {
    pack_columns(values, value_columns_.reserve(rows * width));
  } else {
    pack_rows(values, value_rows_.reserve(rows * width));
    pack_columns(keys, key_columns_.reserve(rows * depth));
  }
}

}  // namespace saddle::kernels

HWY_POP_ATTRIBUTES
