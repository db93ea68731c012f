#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "saddle/kernels/dense/product_bf16_avx512.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "saddle/base/parallel.hpp"
#include "saddle/kernels/dense/product.hpp"
#include "saddle/kernels/dense/tasks.hpp"

#if HWY_TARGET == HWY_AVX3

#include "saddle/kernels/dense/gelu-inl.hpp"

HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512bf16,amx-tile,amx-bf16")
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "saddle/kernels/dense/bf16-inl.hpp"

namespace saddle::kernels::dense {

namespace {

constexpr Index resident = 1 << 20;  // bytes of a packed weight that stay in the second-level cache

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

// Coarse where Y is coarse.
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
      {Schedule::dynamic});
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

}  // namespace saddle::kernels::dense

HWY_POP_ATTRIBUTES

#endif
