#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "saddle/kernels/dense/gradient_bf16_avx512.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "saddle/base/parallel.hpp"
#include "saddle/kernels/dense/product.hpp"

#if HWY_TARGET == HWY_AVX3

HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512bf16,amx-tile,amx-bf16")
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "saddle/kernels/dense/bf16-inl.hpp"

namespace saddle::kernels::dense {

namespace {

constexpr Index chunk_rows = 4096;  // of x and dy that are packed at once
constexpr Index part = 4;           // steps that are packed, and their rows of dy summed, in one go
constexpr Index together = 4;       // panels of the wider operand that meet the other while it is in a cache
constexpr Index chunk_steps = 16;   // that are summed up in registers

// to [O,I] from row o and column i on = sums in tiles [2][2][16][16].
void write(const float* sums, Rows<float> to, Index O, Index I, Index o, Index i) {
  for (Index t = 0; t < 4; ++t) {
    const Index row = o + t / 2 * tile, column = i + t % 2 * tile;
    for (Index j = 0; j < std::min(tile, O - row); ++j)
      _mm512_mask_storeu_ps(to[row + j] + column, first_of_16(I - column),
                            _mm512_load_ps(sums + t * float_tile + j * tile));
  }
}

// The same of their transpose.
void write_transposed(const float* sums, Rows<float> to, Index O, Index I, Index o, Index i) {
  for (Index t = 0; t < 4; ++t) {
    const Index row = o + t % 2 * tile, column = i + t / 2 * tile;
    __m512i r[16];
#pragma GCC unroll 16
    for (Index j = 0; j < tile; ++j) r[j] = _mm512_load_si512(sums + t * float_tile + j * tile);
    transpose(r);
    for (Index j = 0; j < std::min(tile, O - row); ++j)
      _mm512_mask_storeu_ps(to[row + j] + column, first_of_16(I - column), _mm512_castsi512_ps(r[j]));
  }
}

}  // namespace

// The narrower of dy and x is transposed as the first operand, all of it at once; pairs of the other are made where
// they are used. Where x is the narrower one, it is the transpose of dw that comes out.
void weight_gradient(const AmxRows& dy, const AmxRows& x, Index M, Index O, Index I, Rows<float> dw, float* db) {
  const bool turned = O > I;
  const AmxRows &first = turned ? x : dy, &second = turned ? dy : x;
  const Index width = turned ? I : O, columns = turned ? O : I;  // of the first and of the second
  const Index panels = round_up(width, panel) / panel, column_panels = round_up(columns, panel) / panel;
  const Index most_steps = round_up(std::min(M, chunk_rows), step) / step;
  AmxBuffer<BFloat16> memory;
  AmxBuffer<float> sum_memory, column_memory;
  BFloat16* const transposed = memory.reserve(panels * most_steps * step_size);
  float* const sums = sum_memory.reserve(column_panels * panels * block_size);
  // Columns of dy: of each part while it is transposed, or of all rows while pairs are made.
  const Index most_parts = turned ? 1 : round_up(most_steps, part) / part, db_size = round_up(O, panel);
  float* const db_parts = db ? column_memory.reserve(std::max<Index>(most_parts, 1) * db_size) : nullptr;
  if (M == 0) std::fill_n(sums, column_panels * panels * block_size, 0.0f);
  if (db) std::fill_n(db, O, 0.0f);
  if (db && turned) std::fill_n(db_parts, db_size, 0.0f);

  const auto transpose_part = [&](Index m, Index begin, Index end) {
    float* const db_part = db && !turned ? db_parts + begin / part * db_size : nullptr;
    if (db_part) std::fill_n(db_part, db_size, 0.0f);
    for (Index s = begin; s < end; ++s)
      for (Index p = 0; p < panels; ++p)
        Block{first, M, width, m + s * step, p * panel}.columns(transposed + (p * most_steps + s) * step_size,
                                                                db_part ? db_part + p * panel : nullptr);
  };
  // Panels [begin,end) of the second operand, rows from m on.
  const auto add_products = [&](Index m, Index steps, Index begin, Index end) {
    const Multiplier unit;
    AmxBuffer<BFloat16> pair_memory;
    BFloat16* const pairs = pair_memory.reserve((end - begin) * chunk_steps * step_size);
    for (Index s = 0; s < steps; s += chunk_steps) {
      const Index count = std::min(steps - s, chunk_steps);
      for (Index d = 0; d < count; ++d)
        for (Index c = begin; c < end; ++c)
          Block{second, M, columns, m + (s + d) * step, c * panel}.pairs(
              pairs + ((c - begin) * chunk_steps + d) * step_size, db && turned ? db_parts + c * panel : nullptr);
      for (Index c = begin; c < end; ++c)
        for (Index p = 0; p < panels; ++p) {
          const BFloat16* a = transposed + (p * most_steps + s) * step_size;
          unit.multiply<true>(a, a + tile_size, step_size, pairs + (c - begin) * chunk_steps * step_size, count,
                              m + s > 0, sums + (c * panels + p) * block_size, [] {});
        }
    }
  };
  const auto write_panels = [&](Index begin, Index end) {
    for (Index c = begin; c < end; ++c)
      for (Index p = 0; p < panels; ++p) {
        const float* const block = sums + (c * panels + p) * block_size;
        if (turned) {
          write_transposed(block, dw, O, I, c * panel, p * panel);
        } else {
          write(block, dw, O, I, p * panel, c * panel);
        }
      }
  };

  const Index wanted = threads() == 1 ? 1 : 4 * threads();  // tasks
  const Index group = std::clamp<Index>(round_up(column_panels, wanted) / wanted, 1, together);
  for (Index m = 0; m < std::max<Index>(M, 1); m += chunk_rows) {
    const Index steps = round_up(std::min(M - m, chunk_rows), step) / step;
    // Along the rows, as the prefetcher likes it.
    parallel_for(steps, part, [&](Index begin, Index end) { transpose_part(m, begin, end); });
    if (db && !turned)
      for (Index p = 0; p * part < steps; ++p)
        for (Index o = 0; o < O; ++o) db[o] += db_parts[p * db_size + o];
    parallel_for(column_panels, group,
                 [&](Index begin, Index end) {
                   add_products(m, steps, begin, end);
                   if (m + chunk_rows >= M) write_panels(begin, end);
                 },
                 {Schedule::dynamic});
  }
  if (db && turned) std::copy_n(db_parts, O, db);
}

}  // namespace saddle::kernels::dense

HWY_POP_ATTRIBUTES

#endif
