#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "saddle/kernels/dense/product_bf16_avx512.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>
#include <optional>

#include "saddle/base/parallel.hpp"
#include "saddle/kernels/dense/product.hpp"
#include "saddle/kernels/dense/tasks.hpp"

#if HWY_TARGET == HWY_AVX3

#include "saddle/kernels/dense/gelu-inl.hpp"

HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512bf16,amx-tile,amx-bf16")
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "saddle/kernels/amx/tile-inl.hpp"

namespace saddle::kernels::dense {

namespace {

constexpr Index step = panel;               // of the depth: one product of tiles
constexpr Index step_size = 2 * tile_size;  // of a panel: two tiles
constexpr Index block_size = panel * panel;
constexpr Index resident = 1 << 20;  // bytes of a packed weight that stay in the second-level cache
constexpr Index chunk_rows = 4096;   // of x and dy that a weight gradient packs at once
constexpr Index part = 4;            // steps that are packed, and their rows of dy summed, in one go
constexpr Index together = 4;        // panels of the wider operand that meet the other while it is in a cache
constexpr Index chunk_steps = 16;    // that it sums up in registers
constexpr Index few_rows = 8;        // of a block whose dot products stay in registers

const LoopOptions dynamic{Schedule::dynamic};

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

using HWY_NAMESPACE::Float;

// 32 neighbours in a row, of which `valid` exist.
struct Neighbours {
  Float lower, upper;
};
inline Neighbours load(const float* from, __mmask32 valid) {
  return {Float{_mm512_maskz_loadu_ps(static_cast<__mmask16>(valid), from)},
          Float{_mm512_maskz_loadu_ps(static_cast<__mmask16>(valid >> 16), from + tile)}};
}
inline Neighbours load(const BFloat16* from, __mmask32 valid) {
  const __m512i bits = _mm512_maskz_loadu_epi16(valid, from);
  return {Float{widen(_mm512_castsi512_si256(bits))}, Float{widen(_mm512_extracti64x4_epi64(bits, 1))}};
}
inline void store(Neighbours x, float* to, __mmask32 valid) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>(valid), x.lower.raw);
  _mm512_mask_storeu_ps(to + tile, static_cast<__mmask16>(valid >> 16), x.upper.raw);
}
inline void store(Neighbours x, BFloat16* to, __mmask32 valid) {
  _mm512_mask_storeu_epi16(to, valid, round_to_bf16(x.lower.raw, x.upper.raw));
}
inline Neighbours operator+(Neighbours a, Neighbours b) {
  return {Float{_mm512_add_ps(a.lower.raw, b.lower.raw)}, Float{_mm512_add_ps(a.upper.raw, b.upper.raw)}};
}

// As accurately as Y can hold it.
template <class Y>
inline HWY_NAMESPACE::Gelu gelu(Float x) {
  if constexpr (std::is_same_v<Y, BFloat16>) {
    return HWY_NAMESPACE::coarse_gelu(x);
  } else {
    return HWY_NAMESPACE::gelu(x);
  }
}

// Row i of sums in tiles [2][2][16][16].
inline Neighbours sum_row(const float* sums, Index i) {
  const float* from = sums + i / tile * 2 * float_tile + i % tile * tile;
  return {Float{_mm512_load_ps(from)}, Float{_mm512_load_ps(from + float_tile)}};
}

// A block of sums that is still to be finished: while the tiles multiply the next one.
template <class Y>
struct Pending {
  const float* sums = nullptr;
  Index rows = 0, columns = 0;
  Finish<Y> to;

  void finish() const {
    const __mmask32 valid = first_of_32(columns);
    const Neighbours bias = to.bias ? load(to.bias, valid) : load(sums, 0);
    for (Index i = 0; i < rows; ++i) {
      Neighbours x = sum_row(sums, i) + bias;
      if (to.residual) x = x + load(to.residual[i], valid);
      if (to.activation == Activation::gelu) {
        const HWY_NAMESPACE::Gelu lower = gelu<Y>(x.lower), upper = gelu<Y>(x.upper);
        if (to.slope) store({lower.slope, upper.slope}, to.slope[i], valid);
        x = {lower.value, upper.value};
      } else if (to.activation == Activation::times_slope) {
        const Neighbours slope = load(to.slope[i], valid);
        x = {Float{_mm512_mul_ps(x.lower.raw, slope.lower.raw)}, Float{_mm512_mul_ps(x.upper.raw, slope.upper.raw)}};
      }
      store(x, to.y[i], valid);
    }
  }
};

// to [O,I] from row o and column i on = the transpose of sums in tiles [2][2][16][16].
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

template <class Y>
void multiply_rows(const AmxRows& x, Index M, const PackedWeight<BFloat16>& weight, const Finish<Y>& finish) {
  const Index steps = round_up(weight.depth(), step) / step;
  const Index block_rows = weight.bytes() > resident ? 256 : 64;
  const Tasks tasks((M + block_rows - 1) / block_rows, weight.panels());
  parallel_for(
      tasks.count(), 1,
      [&](Index task) {
        const Multiplier unit;
        const Index row = task / tasks.groups * block_rows, rows = std::min(block_rows, M - row);
        const Index begin = task % tasks.groups * tasks.size, end = std::min(weight.panels(), begin + tasks.size);
        AmxBuffer<BFloat16> memory;
        BFloat16* const a = memory.reserve(round_up(rows, panel) * steps * step);
        for (Index i = 0; i < round_up(rows, panel); ++i)
          for (Index d = 0; d < steps; ++d)
            _mm512_store_si512(a + ((i / tile * steps + d) * tile + i % tile) * panel,
                               i < rows ? load_row(x, row + i, d * step, weight.depth()) : _mm512_setzero_si512());
        alignas(64) float sums[2][block_size];
        Pending<Y> pending;
        Index turn = 0;
        for (Index p = begin; p < end; ++p)
          for (Index i = 0; i < rows; i += panel, turn ^= 1) {
            const BFloat16 *a0 = a + i * steps * panel, *a1 = a0 + steps * tile_size, *b = weight.at(p);
            unit.multiply<true>(a0, a1, tile_size, b, steps, false, sums[turn], [&] { pending.finish(); });
            pending = {sums[turn], std::min(panel, rows - i), std::min(panel, weight.columns() - p * panel),
                       finish.at(row + i, p * panel)};
          }
        pending.finish();
      },
      dynamic);
}

}  // namespace

template <>
void PackedWeight<BFloat16>::pack(Side side, Rows<const float> weight, Index O, Index I) {
  depth_ = side == Side::output ? I : O;
  columns_ = side == Side::output ? O : I;
  width_ = panel;
  padded_depth_ = round_up(depth_, step);
  BFloat16* const data = data_.reserve(panels() * panel_size());
  const AmxRows from{{}, weight};
  parallel_for(panels(), 1, [&](Index p) {
    for (Index d = 0; d < padded_depth_; d += step) {
      BFloat16* const to = data + p * panel_size() + d * panel;
      if (side == Side::output) {
        Block{from, O, I, p * panel, d}.column_pairs(to);
      } else {
        Block{from, O, I, d, p * panel}.pairs(to, nullptr);
      }
    }
  });
}

void multiply(const AmxRows& x, Index M, const PackedWeight<BFloat16>& weight, const Finish<float>& finish) {
  multiply_rows(x, M, weight, finish);
}
void multiply(const AmxRows& x, Index M, const PackedWeight<BFloat16>& weight, const Finish<BFloat16>& finish) {
  multiply_rows(x, M, weight, finish);
}

// The narrower of dy and x is transposed as the first operand, all of it at once; pairs of the other are made where
// they are used. If that is dy, the transpose of dw is what comes out.
void weight_gradient(const AmxRows& dy, const AmxRows& x, Index M, Index O, Index I, Rows<float> dw, float* db) {
  const bool turned = O > I;
  const AmxRows &first = turned ? x : dy, &second = turned ? dy : x;
  const Index width = turned ? I : O, columns = turned ? O : I;  // of the first and of the second
  const Index panels = round_up(width, panel) / panel, column_panels = round_up(columns, panel) / panel;
  const Index most_steps = round_up(std::min(M, chunk_rows), step) / step,
              most_parts = round_up(most_steps, part) / part;
  AmxBuffer<BFloat16> memory;
  AmxBuffer<float> sum_memory, column_memory;
  BFloat16* const turned_rows = memory.reserve(panels * most_steps * step_size);
  float* const sums = sum_memory.reserve(column_panels * panels * block_size);
  // Columns of dy: of each part while it is transposed, or of a panel while its pairs are made.
  float* const part_sums = db ? column_memory.reserve((turned ? column_panels : most_parts * panels) * panel) : nullptr;
  if (M == 0) std::fill_n(sums, column_panels * panels * block_size, 0.0f);
  if (db && turned) std::fill_n(part_sums, column_panels * panel, 0.0f);
  if (db) std::fill_n(db, O, 0.0f);
  const Index wanted = threads() == 1 ? 1 : 4 * threads();  // tasks
  const Index group = std::clamp<Index>(round_up(column_panels, wanted) / wanted, 1, together);
  for (Index m = 0; m < std::max<Index>(M, 1); m += chunk_rows) {
    const Index steps = round_up(std::min(M - m, chunk_rows), step) / step;
    // Along the rows, as the prefetcher likes it.
    parallel_for(steps, part, [&](Index begin, Index end) {
      float* const column_sums = db && !turned ? part_sums + begin / part * panels * panel : nullptr;
      if (column_sums) std::fill_n(column_sums, panels * panel, 0.0f);
      for (Index s = begin; s < end; ++s)
        for (Index p = 0; p < panels; ++p)
          Block{first, M, width, m + s * step, p * panel}.columns(turned_rows + (p * most_steps + s) * step_size,
                                                                  column_sums ? column_sums + p * panel : nullptr);
    });
    if (db && !turned)
      for (Index p = 0; p * part < steps; ++p)
        for (Index o = 0; o < O; ++o) db[o] += part_sums[p * panels * panel + o];
    parallel_for(
        round_up(column_panels, group) / group, 1,
        [&](Index task) {
          const Multiplier unit;
          const Index begin = task * group, end = std::min(column_panels, begin + group);
          AmxBuffer<BFloat16> pair_memory;
          BFloat16* const pairs = pair_memory.reserve((end - begin) * chunk_steps * step_size);
          for (Index s = 0; s < steps; s += chunk_steps) {
            const Index count = std::min(steps - s, chunk_steps);
            for (Index d = 0; d < count; ++d)
              for (Index c = begin; c < end; ++c)
                Block{second, M, columns, m + (s + d) * step, c * panel}.pairs(
                    pairs + ((c - begin) * chunk_steps + d) * step_size,
                    db && turned ? part_sums + c * panel : nullptr);
            for (Index c = begin; c < end; ++c)
              for (Index p = 0; p < panels; ++p) {
                const BFloat16* a = turned_rows + (p * most_steps + s) * step_size;
                unit.multiply<true>(a, a + tile_size, step_size, pairs + (c - begin) * chunk_steps * step_size, count,
                                    m + s > 0, sums + (c * panels + p) * block_size, [] {});
              }
          }
          if (m + chunk_rows < M) return;
          for (Index c = begin; c < end; ++c)
            for (Index p = 0; p < panels; ++p) {
              const float* const block = sums + (c * panels + p) * block_size;
              if (turned) {
                write_transposed(block, dw, O, I, c * panel, p * panel);
              } else {
                Finish<float> to;
                to.y = dw;
                Pending<float>{block, std::min(panel, O - p * panel), std::min(panel, I - c * panel),
                               to.at(p * panel, c * panel)}
                    .finish();
              }
            }
        },
        dynamic);
  }
  if (db && turned) std::copy_n(part_sums, O, db);
}

}  // namespace saddle::kernels::dense

HWY_POP_ATTRIBUTES

#endif
