#include <hwy/base.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "saddle/kernels/amx/amx_core.hpp"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "saddle/kernels/amx/mask-inl.hpp"
#include "saddle/kernels/amx/queries-inl.hpp"
#include "saddle/kernels/amx/weights-inl.hpp"

namespace saddle::kernels {

namespace {

constexpr Index block = 4;                     // panels of keys whose weights meet the values together
constexpr Index groups = amx_queries / panel;  // of 32 queries in a task
constexpr Index chunk = 64;                    // panels of keys that every group of a task takes while they are in L2
constexpr Index ring = 3;                      // panels of scores: of this step and of the next two
constexpr float lowest = -1e30f;               // a reference below all scores
constexpr float slack = 8;                     // the reference lags the maximum by at most a factor 2^slack
constexpr Index few_keys = 32;                 // where rounding errors of the weights hardly average out: exp in float
constexpr float safe_exponent = 60;            // no reference is needed when all |t| are below

// What a group of 32 queries keeps from chunk to chunk.
struct alignas(64) Group {
  BFloat16 q[amx_max_width * panel];   // pairs of columns, tiles [D/32][2][16][16][2]
  float o[amx_max_width * panel];      // O^T, tiles [E/16][2][16][16]
  alignas(64) float sum[panel];        // of the weights
  alignas(64) float reference[panel];  // a score
  bool bounded;
  bool fresh;  // nothing was added to o yet, it holds anything
};

// Of a block of panels: P^T in pairs of keys, tiles [panel][2][16][16][2], and what it is multiplied with.
struct alignas(64) Weights {
  BFloat16 p[block * panel * panel];
  const BFloat16* values[block];
  Index count = 0;
  bool rescale = false;  // O^T by factor before these are added
  alignas(64) float factor[panel];
};

struct Scratch {
  Group group[groups];
  Weights weights[2];
  alignas(64) float scores[ring][panel * panel];  // S^T, tiles [2 key halves][2 query halves][16][16]
};

// 32 rows of O^T += V^T P^T over one panel of 32 keys.
struct ValueUnit {
  const BFloat16* values;
  const BFloat16* weights;
  float* o;
  bool first, last;  // of the panels that these rows of O^T stay in registers for
  bool fresh;        // O^T is still zero
};

// What one step of the pipeline works on: the weights of a panel, and either scores or values.
struct Step {
  Index depth;  // D in units of 32
  const BFloat16* q;
  const BFloat16* keys[2];  // of the panels whose scores are to come
  float* next_scores[2];
  Index score_count;    // 0, 1 or 2
  const float* scores;  // of the panel whose weights are to come
  const PanelMask* mask;
  const float* reference;
  float c;
  BFloat16* weights;
  float* sum;
  const ValueUnit* units;  // of the block whose weights are there
  Index unit_count;
};

[[gnu::always_inline]] inline void value_step(const ValueUnit& unit) {
  before_tile_loads();
  if (unit.first) unit.fresh ? zero_sums() : load_sums(unit.o);
  add_product<true>(unit.values, unit.values + tile_size, unit.weights);
  if (unit.last) store_sums(unit.o);
}

// Weights of one panel in eighths, and tile products that do not depend on them in between, so that tiles and vectors
// are busy at the same time. kScores: the scores of the next two panels, else the values of half a block.
template <int kTiles, bool kBounded, bool kMasked, bool kScores>
[[gnu::noinline]] void run_step(const Step& step) {
  const Index depth = kTiles > 0 ? kTiles : step.depth;
  const BFloat16* const q = step.q;
  const ValueUnit* const units = step.units;
  const float* const scores = step.scores;
  BFloat16* const weights = step.weights;
  const auto exp_pair = [&] {
    if constexpr (kBounded) {
      return BoundedExp(step.c);
    } else {
      return AnyExp(step.c, step.reference);
    }
  }();
  const __m512i ones = pinned(_mm512_set1_epi16(0x3F80));
  __m512 sum[2] = {_mm512_load_ps(step.sum), _mm512_load_ps(step.sum + 16)};

  // P^T for the keys [8 quarter, 8 quarter + 8) and queries [16 j, 16 j + 16).
  const auto weigh = [&](Index quarter, Index j) __attribute__((always_inline)) {
    const float* s = scores + (quarter / 2 * 2 + j) * float_tile + quarter % 2 * 8 * tile;
    BFloat16* to = weights + j * tile_size + quarter * 4 * panel;
#pragma GCC unroll 4
    for (Index r = 0; r < 4; ++r) {
      __m512i p = exp_pair(s + 2 * r * tile, s + (2 * r + 1) * tile, j);
      if (kMasked) p = _mm512_maskz_mov_epi16(step.mask->pair[j][quarter * 4 + r], p);
      sum[j] = _mm512_dpbf16_ps(sum[j], __m512bh(p), __m512bh(ones));
      _mm512_store_si512(to + r * panel, p);
    }
  };

  const auto products = [&](Index k) __attribute__((always_inline)) {
    if constexpr (kScores) {
      score_step<true>(step.keys[k / depth], q, depth, step.next_scores[k / depth], k % depth);
    } else {
      value_step(units[k]);
    }
  };

  const Index total = kScores ? step.score_count * depth : step.unit_count;
  if (kTiles > 0 && total == 2 * kTiles) {
#pragma GCC unroll 8
    for (int s = 0; s < 8; ++s) {
      weigh(s / 2, s % 2);
      for (int k = s * kTiles / 4; k < (s + 1) * kTiles / 4; ++k) products(k);
    }
  } else {
    Index k = 0;
    for (Index s = 0; s < 8; ++s) {
      weigh(s / 2, s % 2);
      for (; 8 * k < (s + 1) * total; ++k) products(k);
    }
  }
  _mm512_store_ps(step.sum, sum[0]);
  _mm512_store_ps(step.sum + 16, sum[1]);
}

// The groups of a task, one after the other, against lists of panels. kTiles: D and E in units of 32, 0: not known
// here.
template <int kTiles>
class Pipeline {
 public:
  Pipeline(const AmxHead& head, Scratch& scratch, float c)
      : head_(head),
        scratch_(scratch),
        depth_(round_up(head.D, panel) / panel),
        width_(round_up(head.E, panel) / panel) {
    step_.depth = depth_;
    step_.mask = &mask_;
    step_.c = c;
    start_block();
  }

  // Adds the panels to a group with queries from i0. The last values are added while the next group runs, or by finish.
  void run(Group& group, Index i0, const VisiblePanel* panels, Index count) {
    group_ = &group;
    i0_ = i0;
    step_.q = group.q;
    step_.reference = group.reference;
    step_.sum = group.sum;
    group.bounded ? sweep<true>(panels, count) : sweep<false>(panels, count);
  }

  void finish() {
    for (; unit_done_ < unit_total_; ++unit_done_) value_step(units_[unit_done_]);
  }

 private:
  // kBounded: all |t| are below safe_exponent, so the weights are exp(s) as they are.
  template <bool kBounded>
  void sweep(const VisiblePanel* panels, Index count) {
    for (Index i = 0; i < std::min<Index>(2, count); ++i)
      for (Index d = 0; d < depth_; ++d) score_step<true>(keys_of(panels[i]), step_.q, depth_, scratch_.scores[i], d);
    for (Index i = 0; i < count; ++i) {
      const bool masked = panels[i].masked;
      if (masked) {
        mask_.read(head_, i0_, panels[i].index * panel);
        mask_.find_pairs();
      }
      step_.scores = scratch_.scores[i % ring];
      if (!kBounded) follow_maximum(masked);
      step_.weights = current_->p + current_->count * panel * panel;
      if (i % 2 == 0) {
        step_.units = units_ + unit_done_;
        step_.unit_count = (unit_done_ < unit_half_ ? unit_half_ : unit_total_) - unit_done_;
        unit_done_ += step_.unit_count;
        masked ? run_step<kTiles, kBounded, true, false>(step_) : run_step<kTiles, kBounded, false, false>(step_);
      } else {
        step_.score_count = std::min<Index>(2, count - i - 1);
        for (Index n = 0; n < step_.score_count; ++n) {
          step_.keys[n] = keys_of(panels[i + 1 + n]);
          step_.next_scores[n] = scratch_.scores[(i + 1 + n) % ring];
        }
        masked ? run_step<kTiles, kBounded, true, true>(step_) : run_step<kTiles, kBounded, false, true>(step_);
      }
      current_->values[current_->count] = head_.keys->value_columns() + panels[i].index * panel * width_ * panel;
      if (++current_->count == block) close_block();
    }
    if (current_->count > 0) close_block();
  }

  const BFloat16* keys_of(const VisiblePanel& p) const {
    return head_.keys->key_rows() + p.index * panel * depth_ * panel;
  }

  // The current block waits for its values; the one that waited is done.
  void close_block() {
    finish();
    const Weights& w = *current_;
    if (w.rescale && !group_->fresh) {
      const __m512 f[2] = {_mm512_load_ps(w.factor), _mm512_load_ps(w.factor + 16)};
      float* o = group_->o;
      for (Index t = 0; t < 4 * width_; ++t)
        for (Index r = 0; r < tile; ++r, o += tile) _mm512_store_ps(o, _mm512_mul_ps(f[t % 2], _mm512_load_ps(o)));
    }
    unit_done_ = unit_total_ = 0;
    unit_half_ = w.count * width_ / 2;
    for (Index e = 0; e < width_; ++e)
      for (Index p = 0; p < w.count; ++p, ++unit_total_)
        units_[unit_total_] = {.values = w.values[p] + 2 * e * tile_size,
                               .weights = w.p + 2 * p * tile_size,
                               .o = group_->o + 4 * e * float_tile,
                               .first = p == 0 || unit_total_ == unit_half_,
                               .last = p == w.count - 1 || unit_total_ == unit_half_ - 1,
                               .fresh = group_->fresh && p == 0};
    group_->fresh = false;
    current_ = current_ == scratch_.weights ? scratch_.weights + 1 : scratch_.weights;
    start_block();
  }

  void start_block() {
    current_->count = 0;
    current_->rescale = false;
  }

  // Moves the reference of queries whose scores in this panel exceed it too far; what came before is scaled down.
  void follow_maximum(bool masked) {
    __m512 top[2] = {_mm512_set1_ps(lowest), _mm512_set1_ps(lowest)}, old[2];
    const float* s = step_.scores;
    for (Index c = 0; c < panel; ++c)
      for (Index j = 0; j < 2; ++j) {
        const __mmask16 seen = masked ? mask_.of_key(c, j) : __mmask16{0xFFFF};
        top[j] = _mm512_mask_max_ps(top[j], seen, _mm512_load_ps(s + (c / tile * 2 + j) * float_tile + c % tile * tile),
                                    top[j]);
      }
    __mmask16 exceeds = 0;
    for (Index j = 0; j < 2; ++j) {
      old[j] = _mm512_load_ps(group_->reference + 16 * j);
      const __m512 above = _mm512_mul_ps(_mm512_sub_ps(top[j], old[j]), _mm512_set1_ps(step_.c));
      exceeds |= _mm512_cmp_ps_mask(above, _mm512_set1_ps(slack), _CMP_GT_OQ);
    }
    if (exceeds == 0) return;
    if (current_->count > 0) close_block();
    for (Index j = 0; j < 2; ++j) {
      const __m512 reference = _mm512_max_ps(top[j], old[j]);
      const __m512 factor = exp2_coarse(_mm512_mul_ps(_mm512_sub_ps(old[j], reference), _mm512_set1_ps(step_.c)));
      __m512 before = factor;
      if (current_->rescale) before = _mm512_mul_ps(before, _mm512_load_ps(current_->factor + 16 * j));
      _mm512_store_ps(current_->factor + 16 * j, before);
      _mm512_store_ps(group_->reference + 16 * j, reference);
      _mm512_store_ps(group_->sum + 16 * j, _mm512_mul_ps(factor, _mm512_load_ps(group_->sum + 16 * j)));
    }
    current_->rescale = true;
  }

  const AmxHead& head_;
  Scratch& scratch_;
  const Index depth_, width_;
  PanelMask mask_;
  Step step_{};
  Group* group_ = nullptr;
  Index i0_ = 0;
  Weights* current_ = scratch_.weights;
  ValueUnit units_[block * amx_max_width / panel];
  Index unit_done_ = 0, unit_half_ = 0, unit_total_ = 0;
};

void write(const AmxHead& head, const AmxOutputs& outputs, Index i0, const Group& group) {
  const Index count = std::min(panel, head.N - i0);
  alignas(64) float factor[panel];
  for (Index i = 0; i < panel; ++i) factor[i] = group.sum[i] == 0 ? 0 : 1 / group.sum[i];
  for (Index j = 0; 16 * j < count; ++j)
    for (Index e = 0; e < head.E; e += tile) {
      const float* o = group.o + (e / tile * 2 + j) * float_tile;
      const __m512 f = _mm512_load_ps(factor + 16 * j);
      const __mmask16 sees = _mm512_cmp_ps_mask(f, _mm512_setzero_ps(), _CMP_NEQ_UQ);
      __m512i r[16];
#pragma GCC unroll 16
      for (Index i = 0; i < tile; ++i)
        r[i] = _mm512_castps_si512(_mm512_maskz_mul_ps(sees, f, _mm512_load_ps(o + i * tile)));
      transpose(r);
      const __mmask16 valid = first_of_16(head.E - e);
      for (Index i = 0; i < std::min(tile, count - 16 * j); ++i) {
        const __m512 row = _mm512_castsi512_ps(r[i]);
        const Index at = i0 + 16 * j + i;
        if (outputs.half) {
          _mm256_mask_storeu_epi16(outputs.half[at] + e, valid, __m256i(_mm512_cvtneps_pbh(row)));
        } else {
          _mm512_mask_storeu_ps(outputs.full[at] + e, valid, row);
        }
      }
    }
  if (outputs.lse == nullptr) return;
  for (Index i = 0; i < count; ++i) {
    const float r = head.row != nullptr ? head.row[i0 + i] : 0;
    outputs.lse[i0 + i] = group.sum[i] == 0
                              ? -std::numeric_limits<float>::infinity()
                              : group.reference[i] * static_cast<float>(std::fabs(head.a)) + std::log(group.sum[i]) + r;
  }
}

template <int kTiles>
void run_groups(const AmxHead& head, Index i0, Index count, float c, Scratch& scratch) {
  Pipeline<kTiles> pipeline(head, scratch, c);
  const Index panels = round_up(head.K, panel) / panel;
  for (Index p = 0; p < panels; p += chunk)
    for (Index g = 0; g < count; ++g) {
      VisiblePanel list[chunk];
      const Index listed = list_panels(head, i0 + g * panel, p, std::min(p + chunk, panels), list);
      if (listed > 0) pipeline.run(scratch.group[g], i0 + g * panel, list, listed);
    }
  pipeline.finish();
}

// Up to amx_queries queries.
void forward_task(const AmxHead& head, const AmxOutputs& outputs, Index i0, Index i1, Scratch& scratch) {
  const Index depth = round_up(head.D, panel) / panel, width = round_up(head.E, panel) / panel;
  const float c = static_cast<float>(std::fabs(head.a) * 1.4426950408889634074);
  // Below it no |t| exceeds safe_exponent; NaN if a key is not finite.
  const float limit = std::min(safe_exponent / (c * head.keys->max_norm()), 1e18f);
  const Index count = (i1 - i0 + panel - 1) / panel;
  for (Index g = 0; g < count; ++g) {
    Group& group = scratch.group[g];
    const float norm = pack_column_pairs(query_rows(head), i0 + g * panel, head.a < 0, group.q);
    group.bounded = head.K > few_keys && norm <= limit;
    group.fresh = true;
    for (Index i = 0; i < panel; ++i) {
      group.sum[i] = 0;
      group.reference[i] = group.bounded ? 0 : lowest;
    }
  }
  if (depth == 1 && width == 1) {
    run_groups<1>(head, i0, count, c, scratch);
  } else if (depth == 2 && width == 2) {
    run_groups<2>(head, i0, count, c, scratch);
  } else if (depth == 4 && width == 4) {
    run_groups<4>(head, i0, count, c, scratch);
  } else {
    run_groups<0>(head, i0, count, c, scratch);
  }
  for (Index g = 0; g < count; ++g) write(head, outputs, i0 + g * panel, scratch.group[g]);
}

}  // namespace

void amx_forward(const AmxHead& head, const AmxOutputs& outputs, Index i0, Index i1) {
  const TileConfig config;
  Scratch scratch;
  for (; i0 < i1; i0 += amx_queries) forward_task(head, outputs, i0, std::min(i0 + amx_queries, i1), scratch);
}

}  // namespace saddle::kernels

HWY_POP_ATTRIBUTES
