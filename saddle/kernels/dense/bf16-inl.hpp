// Operands in bfloat16 as tiles take them, and what multiplies them: what products and weight gradients share. Included
// inside the target options of the files that use it.
#pragma once

#include <cstring>
#include <optional>

#include "saddle/kernels/amx/tile-inl.hpp"

namespace saddle::kernels::dense {
namespace {

constexpr Index step = panel;               // of the depth: one product of tiles
constexpr Index step_size = 2 * tile_size;  // of a panel: two tiles
constexpr Index block_size = panel * panel;
constexpr Index few_rows = 8;  // of a block whose dot products stay in registers

// What multiplies: tiles where there are any, else dot products of pairs, which take the same packed operands. One for
// each task.
class Multiplier {
 public:
  Multiplier() {
    if (best_isa() >= Isa::amx) tiles_.emplace();
  }

  // sums [2][2][16][16] (more: +)= the product of 32 rows, tiles a0 and a1 per step, with 32 columns, two tiles per
  // step. Tiles that multiply leave the vector units to `meanwhile`.
  template <bool kPassing, class F>
  void multiply(const BFloat16* a0, const BFloat16* a1, Index a_step, const BFloat16* b, Index steps, bool more,
                float* sums, F&& meanwhile) const {
    if (!tiles_) {
      for (Index row = 0; row < tile; row += few_rows) add_dots(a0, a_step, b, steps, more, sums, row);
      for (Index row = 0; row < tile; row += few_rows) add_dots(a1, a_step, b, steps, more, sums + 2 * float_tile, row);
      meanwhile();
      return;
    }
    before_tile_loads();
    if (more) {
      load_sums(sums);
    } else {
      zero_sums();
    }
    for (Index s = 0; s < steps; ++s) add_product<kPassing>(a0 + s * a_step, a1 + s * a_step, b + s * step_size);
    meanwhile();
    store_sums(sums);
  }

 private:
  static void add_dots(const BFloat16* a, Index a_step, const BFloat16* b, Index steps, bool more, float* sums,
                       Index row) {
    __m512 sum[few_rows][2];
    float* const to = sums + row * tile;
#pragma GCC unroll 8
    for (Index r = 0; r < few_rows; ++r)
#pragma GCC unroll 2
      for (Index c = 0; c < 2; ++c)
        sum[r][c] = more ? _mm512_load_ps(to + c * float_tile + r * tile) : _mm512_setzero_ps();
    for (Index s = 0; s < steps; ++s) {
      const BFloat16 *rows = a + s * a_step + row * panel, *pairs = b + s * step_size;
      for (Index p = 0; p < tile; ++p, rows += 2, pairs += panel) {
        const __m512i left = _mm512_load_si512(pairs), right = _mm512_load_si512(pairs + tile_size);
#pragma GCC unroll 8
        for (Index r = 0; r < few_rows; ++r) {
          std::int32_t pair;
          std::memcpy(&pair, rows + r * panel, sizeof pair);
          const __m512i x = _mm512_set1_epi32(pair);
          sum[r][0] = _mm512_dpbf16_ps(sum[r][0], __m512bh(x), __m512bh(left));
          sum[r][1] = _mm512_dpbf16_ps(sum[r][1], __m512bh(x), __m512bh(right));
        }
      }
    }
#pragma GCC unroll 8
    for (Index r = 0; r < few_rows; ++r)
#pragma GCC unroll 2
      for (Index c = 0; c < 2; ++c) _mm512_store_ps(to + c * float_tile + r * tile, sum[r][c]);
  }

  std::optional<TileConfig> tiles_;
};

// Pairs of two rows of 32: (a_0,b_0) .. (a_15,b_15) and (a_16,b_16) .. (a_31,b_31).
inline void interleave(__m512i a, __m512i b, __m512i& lower, __m512i& upper) {
  alignas(64) static constexpr std::uint16_t order[64] = {
      0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
      11, 43, 12, 44, 13, 45, 14, 46, 15, 47, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53,
      22, 54, 23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63};
  lower = _mm512_permutex2var_epi16(a, _mm512_load_si512(order), b);
  upper = _mm512_permutex2var_epi16(a, _mm512_load_si512(order + 32), b);
}

// Adds rows of 32 to sums [32] when it goes; does nothing if they are null.
class ColumnSums {
 public:
  explicit ColumnSums(float* sums) : sums_(sums) {}
  ~ColumnSums() {
    if (sums_ == nullptr) return;
    _mm512_storeu_ps(sums_, _mm512_add_ps(_mm512_loadu_ps(sums_), lower_));
    _mm512_storeu_ps(sums_ + tile, _mm512_add_ps(_mm512_loadu_ps(sums_ + tile), upper_));
  }
  ColumnSums(const ColumnSums&) = delete;
  ColumnSums& operator=(const ColumnSums&) = delete;

  void add(__m512i row) {
    if (sums_ == nullptr) return;
    lower_ = _mm512_add_ps(lower_, widen(_mm512_castsi512_si256(row)));
    upper_ = _mm512_add_ps(upper_, widen(_mm512_extracti64x4_epi64(row, 1)));
  }

 private:
  float* sums_;
  __m512 lower_ = _mm512_setzero_ps(), upper_ = _mm512_setzero_ps();
};

// Rows [i, i + 32) and columns [c, c + 32) of rows [count,width], zeros beyond.
struct Block {
  const AmxRows& rows;
  Index count, width, i, c;

  __m512i row(Index r) const { return i + r < count ? load_row(rows, i + r, c, width) : _mm512_setzero_si512(); }
  // The block below comes closer: too many rows are read in turn for the prefetcher to follow.
  void prefetch_below(Index r) const {
    if (i + panel + r >= count) return;
    if (rows.half) {
      _mm_prefetch(rows.half[i + panel + r] + c, _MM_HINT_T1);
    } else {
      _mm_prefetch(rows.full[i + panel + r] + c, _MM_HINT_T1);
      _mm_prefetch(rows.full[i + panel + r] + c + tile, _MM_HINT_T1);
    }
  }
  // As the second operand: pairs of rows, tiles [2][16][16][2]. sums [32] (or null) += the columns.
  void pairs(BFloat16* to, float* sums) const {
    ColumnSums columns(sums);
    for (Index p = 0; p < tile; ++p) {
      const __m512i a = row(2 * p), b = row(2 * p + 1);
      __m512i lower, upper;
      interleave(a, b, lower, upper);
      prefetch_below(2 * p);
      prefetch_below(2 * p + 1);
      columns.add(a);
      columns.add(b);
      _mm512_store_si512(to + p * panel, lower);
      _mm512_store_si512(to + tile_size + p * panel, upper);
    }
  }
  // The transpose as the second operand: pairs of columns.
  void column_pairs(BFloat16* to) const {
    for (Index half = 0; half < 2; ++half) {
      __m512i r[16];
#pragma GCC unroll 16
      for (Index j = 0; j < tile; ++j) r[j] = row(half * tile + j);
      transpose(r);
#pragma GCC unroll 16
      for (Index j = 0; j < tile; ++j) _mm512_store_si512(to + half * tile_size + j * panel, r[j]);
    }
  }
  // The transpose as the first operand: tiles [2][16][32] with a column in each row. sums [32] (or null) += the
  // columns.
  void columns(BFloat16* to, float* sums) const {
    ColumnSums columns(sums);
    __m512i lower[16], upper[16];
    for (Index p = 0; p < tile; ++p) {
      const __m512i a = row(2 * p), b = row(2 * p + 1);
      interleave(a, b, lower[p], upper[p]);
      prefetch_below(2 * p);
      prefetch_below(2 * p + 1);
      columns.add(a);
      columns.add(b);
    }
    transpose(lower);
    for (Index j = 0; j < tile; ++j) _mm512_store_si512(to + j * panel, lower[j]);
    transpose(upper);
    for (Index j = 0; j < tile; ++j) _mm512_store_si512(to + tile_size + j * panel, upper[j]);
  }
};

}  // namespace
}  // namespace saddle::kernels::dense
