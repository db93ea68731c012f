#include <hwy/base.h>

#include <algorithm>
#include <cmath>
#include <cstring>
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

constexpr Index side = amx_keys / panel;    // panels of keys and of queries in a block
constexpr Index pair_size = 2 * tile_size;  // bfloat16 values of 32 keys by 32 queries
constexpr Index square = panel * panel;     // floats of the same
constexpr double log2_e = 1.4426950408889634074;

// 32 rows from i0 as tiles [width/32][2][16][16][2]: pairs of rows by columns.
void pack_row_pairs(const RowSource& from, Index i0, BFloat16* to) {
  for (Index c = 0; c < from.width; c += panel, to += pair_size)
    for (Index r = 0; r < tile; ++r) {
      const __m512i a = from.load(i0 + 2 * r, c), b = from.load(i0 + 2 * r + 1, c);
      _mm512_store_si512(to + r * panel, _mm512_unpacklo_epi16(a, b));
      _mm512_store_si512(to + tile_size + r * panel, _mm512_unpackhi_epi16(a, b));
    }
}

// The first `count` of 16 floats.
inline void store_first(float* to, Index count, __m512 x) { _mm512_mask_storeu_ps(to, first_of_16(count), x); }
inline void store_first(BFloat16* to, Index count, __m512 x) {
  _mm256_mask_storeu_epi16(to, first_of_16(count), __m256i(_mm512_cvtneps_pbh(x)));
}

// 32 keys by 32 queries of a block, after the scores.
struct alignas(64) Weights {
  BFloat16 p[pair_size];   // P^T, tiles [2 key halves][16][32]
  BFloat16 ds[pair_size];  // dS^T / a likewise
  // dS^T / a in pairs of keys, tiles [2][16][16][2]: the queries 0-3, 8-11, 16-19, 24-27, and the others.
  BFloat16 ds_pairs[pair_size];
  bool visible;
};

struct Scratch {
  Weights weights[side][side];                         // [query panel][key panel]
  alignas(64) float scores[2][2 * square];             // S^T and dP^T of this panel and the next, tiles [2][2][16][16]
  alignas(64) float dk[side * panel * amx_max_width];  // tiles [panel][D/32][2][2][16][16]
  alignas(64) float dv[side * panel * amx_max_width];
  PanelMask mask;
};

struct Place {
  Index query, key;  // panels within the block
  bool masked;
};

// What one step works on: P and dS of a place from its scores, and the scores of the next place.
struct Step {
  Index depth, width;              // D and E in units of 32
  const float* scores;             // S^T and dP^T
  const float *reference, *delta;  // of the 32 queries
  float c;
  const PanelMask* mask;
  Weights* to;
  const BFloat16 *keys, *values, *q, *dy;  // of the next place; keys null: there is none
  float* next_scores;
};

template <int kTiles, bool kMasked>
[[gnu::noinline]] void run_step(const Step& step) {
  const Index depth = kTiles > 0 ? kTiles : step.depth, width = kTiles > 0 ? kTiles : step.width;
  const BFloat16 *const keys = step.keys, *const values = step.values, *const q = step.q, *const dy = step.dy;
  float* const next = step.next_scores;
  const float* const scores = step.scores;
  BFloat16 *const to_p = step.to->p, *const to_ds = step.to->ds, *const to_pairs = step.to->ds_pairs;
  const __m512 scale = pinned(_mm512_set1_ps(step.c)), zero = _mm512_setzero_ps();
  const __m512 reference[2] = {_mm512_load_ps(step.reference), _mm512_load_ps(step.reference + 16)};
  const __m512 delta[2] = {_mm512_load_ps(step.delta), _mm512_load_ps(step.delta + 16)};

  // P^T and dS^T for the keys [4 part, 4 part + 4).
  const auto weigh = [&](Index part) __attribute__((always_inline)) {
    const float* s = scores + part / 4 * 2 * float_tile + part % 4 * 4 * tile;
    __m512i ds_row[4];
#pragma GCC unroll 4
    for (Index r = 0; r < 4; ++r) {
      __m512 p[2], ds[2];
#pragma GCC unroll 2
      for (Index j = 0; j < 2; ++j) {
        const float* at = s + j * float_tile + r * tile;
        // No weight exceeds 1, however coarse the scores are; NaN passes.
        p[j] = exp2_coarse(_mm512_min_ps(zero, _mm512_fmsub_ps(_mm512_load_ps(at), scale, reference[j])));
        const __m512 dp = _mm512_sub_ps(_mm512_load_ps(at + square), delta[j]);
        if (kMasked) {
          const __mmask16 seen = step.mask->of_key(4 * part + r, j);
          p[j] = _mm512_maskz_mov_ps(seen, p[j]);
          ds[j] = _mm512_maskz_mul_ps(seen, p[j], dp);
        } else {
          ds[j] = _mm512_mul_ps(p[j], dp);
        }
      }
      ds_row[r] = round_to_bf16(ds[0], ds[1]);
      _mm512_store_si512(to_p + (4 * part + r) * panel, round_to_bf16(p[0], p[1]));
      _mm512_store_si512(to_ds + (4 * part + r) * panel, ds_row[r]);
    }
#pragma GCC unroll 2
    for (Index r = 0; r < 2; ++r) {
      BFloat16* pairs = to_pairs + (2 * part + r) * panel;
      _mm512_store_si512(pairs, _mm512_unpacklo_epi16(ds_row[2 * r], ds_row[2 * r + 1]));
      _mm512_store_si512(pairs + tile_size, _mm512_unpackhi_epi16(ds_row[2 * r], ds_row[2 * r + 1]));
    }
  };
  const auto products = [&](Index k) __attribute__((always_inline)) {
    if (k < depth) {
      score_step<false>(keys, q, depth, next, k);
    } else {
      score_step<false>(values, dy, width, next + square, k - depth);
    }
  };

  if (kTiles > 0 && keys != nullptr) {
#pragma GCC unroll 8
    for (int part = 0; part < 8; ++part) {
      weigh(part);
#pragma GCC unroll 2
      for (int k = part * kTiles / 4; k < (part + 1) * kTiles / 4; ++k) products(k);
    }
  } else {
    const Index total = keys != nullptr ? depth + width : 0;
    Index k = 0;
    for (Index part = 0; part < 8; ++part) {
      weigh(part);
      for (; 8 * k < (part + 1) * total; ++k) products(k);
    }
  }
}

template <int kTiles>
class KeyBlock {
 public:
  KeyBlock(const AmxHead& head, const AmxQueries& queries, Scratch& scratch, float* dq, Index first, Index count)
      : head_(head),
        queries_(queries),
        scratch_(scratch),
        dq_(dq),
        first_(first),
        count_(count),
        depth_(round_up(head.D, panel) / panel),
        width_(round_up(head.E, panel) / panel),
        c_(static_cast<float>(head.a * log2_e)) {
    std::memset(scratch.dk, 0, sizeof(float) * static_cast<std::size_t>(count * depth_ * square));
    std::memset(scratch.dv, 0, sizeof(float) * static_cast<std::size_t>(count * width_ * square));
  }

  // The query panels [q0, q0 + n), n at most `side`.
  void run(Index q0, Index n) {
    Place places[side * side];
    Index total = 0;
    for (Index q = 0; q < n; ++q) {
      for (Index k = 0; k < count_; ++k) scratch_.weights[q][k].visible = false;
      VisiblePanel list[side];
      const Index listed = list_panels(head_, (q0 + q) * panel, first_, first_ + count_, list);
      for (Index i = 0; i < listed; ++i) {
        places[total++] = {q, list[i].index - first_, list[i].masked};
        scratch_.weights[q][list[i].index - first_].visible = true;
      }
    }
    if (total == 0) return;
    Step step{};
    step.depth = depth_;
    step.width = width_;
    step.c = c_;
    step.mask = &scratch_.mask;
    aim(step, q0, places[0], 0);
    for (Index d = 0; d < depth_; ++d) score_step<false>(step.keys, step.q, depth_, step.next_scores, d);
    for (Index e = 0; e < width_; ++e) score_step<false>(step.values, step.dy, width_, step.next_scores + square, e);
    for (Index i = 0; i < total; ++i) {
      const Place& place = places[i];
      if (place.masked) scratch_.mask.read(head_, (q0 + place.query) * panel, (first_ + place.key) * panel);
      step.scores = scratch_.scores[i % 2];
      step.reference = queries_.reference() + (q0 + place.query) * panel;
      step.delta = queries_.delta() + (q0 + place.query) * panel;
      step.to = &scratch_.weights[place.query][place.key];
      if (i + 1 < total) {
        aim(step, q0, places[i + 1], (i + 1) % 2);
      } else {
        step.keys = nullptr;
      }
      place.masked ? run_step<kTiles, true>(step) : run_step<kTiles, false>(step);
    }
    add_key_gradients(q0, n);
    add_query_gradients(q0, n);
  }

  void write(const AmxGradients& gradients) const {
    const Index j0 = first_ * panel, n = std::min(count_ * panel, head_.K - j0);
    const auto a = static_cast<float>(head_.a);
    if (gradients.dk) write_rows(scratch_.dk, depth_, head_.D, a, gradients.dk, j0, n);
    if (gradients.half_dk) write_rows(scratch_.dk, depth_, head_.D, a, gradients.half_dk, j0, n);
    if (gradients.dv) write_rows(scratch_.dv, width_, head_.E, 1, gradients.dv, j0, n);
    if (gradients.half_dv) write_rows(scratch_.dv, width_, head_.E, 1, gradients.half_dv, j0, n);
  }

 private:
  void aim(Step& step, Index q0, const Place& place, Index slot) const {
    const Index q = q0 + place.query, k = first_ + place.key;
    step.keys = head_.keys->key_rows() + k * depth_ * pair_size;
    step.values = head_.keys->value_rows() + k * width_ * pair_size;
    step.q = queries_.q_columns() + q * depth_ * pair_size;
    step.dy = queries_.dy_columns() + q * width_ * pair_size;
    step.next_scores = scratch_.scores[slot];
  }

  // dV += P^T dY and dK += dS^T Q over the queries of the block.
  void add_key_gradients(Index q0, Index n) {
    for (Index k = 0; k < count_; ++k)
      add_rows(k, n, &Weights::p, queries_.dy_rows() + q0 * width_ * pair_size, width_, scratch_.dv);
    for (Index k = 0; k < count_; ++k)
      add_rows(k, n, &Weights::ds, queries_.q_rows() + q0 * depth_ * pair_size, depth_, scratch_.dk);
  }

  // Adds the products of one operand of key panel k with rows [n][tiles] of the queries to sums [count][tiles].
  void add_rows(Index k, Index n, BFloat16 (Weights::*operand)[pair_size], const BFloat16* rows, Index tiles,
                float* sums) {
    const Weights* seen[side];
    const BFloat16* from[side];
    Index count = 0;
    for (Index q = 0; q < n; ++q) {
      if (!scratch_.weights[q][k].visible) continue;
      seen[count] = &scratch_.weights[q][k];
      from[count++] = rows + q * tiles * pair_size;
    }
    if (count == 0) return;
    for (Index t = 0; t < tiles; ++t) {
      float* to = sums + (k * tiles + t) * square;
      before_tile_loads();
      load_sums(to);
      for (Index i = 0; i < count; ++i) {
        const BFloat16* a = seen[i]->*operand;
        add_product<false>(a, a + tile_size, from[i] + t * pair_size);
      }
      store_sums(to);
    }
  }

  // dQ^T += K^T dS^T over the keys of the block.
  void add_query_gradients(Index q0, Index n) {
    for (Index q = 0; q < n; ++q) {
      bool any = false;
      for (Index k = 0; k < count_; ++k) any = any || scratch_.weights[q][k].visible;
      if (!any) continue;
      for (Index d = 0; d < depth_; ++d) {
        float* sums = dq_ + ((q0 + q) * depth_ + d) * square;
        before_tile_loads();
        load_sums(sums);
        for (Index k = 0; k < count_; ++k) {
          const Weights& w = scratch_.weights[q][k];
          const BFloat16* columns = head_.keys->key_columns() + ((first_ + k) * depth_ + d) * pair_size;
          if (w.visible) add_product<false>(columns, columns + tile_size, w.ds_pairs);
        }
        store_sums(sums);
      }
    }
  }

  // Tiles [n/32][width/32][2][2][16][16] whose columns are permuted as in AmxQueries::q_rows.
  template <class T>
  static void write_rows(const float* from, Index tiles, Index width, float factor, const Rows<T>& to, Index j0,
                         Index n) {
    const __m512i first = _mm512_set_epi32(23, 22, 21, 20, 7, 6, 5, 4, 19, 18, 17, 16, 3, 2, 1, 0);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    const __m512 f = _mm512_set1_ps(factor);
    for (Index j = 0; j < n; ++j)
      for (Index c = 0; c < width; c += panel) {
        const float* at =
            from + (j / panel * tiles + c / panel) * square + j % panel / tile * 2 * float_tile + j % tile * tile;
        const __m512 a = _mm512_mul_ps(f, _mm512_load_ps(at)), b = _mm512_mul_ps(f, _mm512_load_ps(at + float_tile));
        T* out = to[j0 + j] + c;
        store_first(out, width - c, _mm512_permutex2var_ps(a, first, b));
        store_first(out + 16, width - c - 16, _mm512_permutex2var_ps(a, second, b));
      }
  }

  const AmxHead& head_;
  const AmxQueries& queries_;
  Scratch& scratch_;
  float* const dq_;  // dQ^T / a, tiles [N/32][D/32][2][2][16][16] with queries permuted as in Weights::ds_pairs
  const Index first_, count_;
  const Index depth_, width_;
  const float c_;
};

template <class T>
void write_queries(const AmxHead& head, const float* from, const Rows<T>& dq) {
  const Index depth = round_up(head.D, panel) / panel;
  const __m512 factor = _mm512_set1_ps(static_cast<float>(head.a));
  for (Index q = 0; q * panel < head.N; ++q)
    for (Index c = 0; c < head.D; c += tile)
      for (Index j = 0; j < 2; ++j) {
        const float* at = from + (q * depth + c / panel) * square + (c % panel / tile * 2 + j) * float_tile;
        __m512i r[16];
        for (Index i = 0; i < tile; ++i)
          r[i] = _mm512_castps_si512(_mm512_mul_ps(factor, _mm512_load_ps(at + i * tile)));
        transpose(r);
        for (Index i = 0; i < tile; ++i) {
          const Index query = q * panel + i / 4 * 8 + 4 * j + i % 4;
          if (query < head.N) store_first(dq[query] + c, head.D - c, _mm512_castsi512_ps(r[i]));
        }
      }
}

template <int kTiles>
void run_blocks(const AmxHead& head, const AmxQueries& queries, const AmxGradients& gradients, Index j0, Index j1,
                float* dq, Scratch& scratch) {
  const Index panels = round_up(head.N, panel) / panel;
  for (Index j = j0; j < j1; j += amx_keys) {
    const Index count = (std::min(j + amx_keys, j1) - j + panel - 1) / panel;
    KeyBlock<kTiles> block(head, queries, scratch, dq, j / panel, count);
    for (Index q = 0; q < panels; q += side) block.run(q, std::min(side, panels - q));
    block.write(gradients);
  }
}

}  // namespace

void AmxQueries::pack(const AmxHead& head, const AmxRows& dy, const float* lse, const float* delta) {
  const Index rows = round_up(head.N, panel), depth = round_up(head.D, panel), width = round_up(head.E, panel);
  const RowSource q = query_rows(head), y{dy, nullptr, nullptr, head.N, head.E};
  q_columns_.reserve(rows * depth);
  q_rows_.reserve(rows * depth);
  dy_columns_.reserve(rows * width);
  dy_rows_.reserve(rows * width);
  for (Index i = 0; i < rows; i += panel) {
    pack_column_pairs(q, i, false, q_columns_.data() + i * depth);
    pack_row_pairs(q, i, q_rows_.data() + i * depth);
    pack_column_pairs(y, i, false, dy_columns_.data() + i * width);
    pack_row_pairs(y, i, dy_rows_.data() + i * width);
  }
  constexpr float infinity = std::numeric_limits<float>::infinity();
  float* reference = reference_.reserve(rows);
  float* own_delta = delta_.reserve(rows);
  for (Index i = 0; i < rows; ++i) {
    const bool sees = i < head.N && lse[i] != -infinity;
    const double r = sees && head.row != nullptr ? head.row[i] : 0;
    reference[i] = sees ? static_cast<float>((lse[i] - r) * log2_e) : infinity;
    own_delta[i] = sees ? delta[i] : 0;
  }
}

void amx_deltas(Rows<const BFloat16> dy, Rows<const BFloat16> y, Index N, Index E, float* delta) {
  for (Index i = 0; i < N; ++i) {
    __m512 sum = _mm512_setzero_ps();
    for (Index e = 0; e < E; e += 16) {
      const __mmask16 valid = first_of_16(E - e);
      sum = _mm512_fmadd_ps(widen(_mm256_maskz_loadu_epi16(valid, dy[i] + e)),
                            widen(_mm256_maskz_loadu_epi16(valid, y[i] + e)), sum);
    }
    delta[i] = _mm512_reduce_add_ps(sum);
  }
}

void amx_backward(const AmxHead& head, const AmxQueries& queries, const AmxGradients& gradients, Index j0, Index j1,
                  AmxScratch& scratch) {
  const TileConfig config;
  const Index panels = round_up(head.N, panel) / panel;
  const Index depth = round_up(head.D, panel) / panel, width = round_up(head.E, panel) / panel;
  const Index dq_size = panels * depth * square;
  float* dq = scratch.dq.reserve(dq_size);
  std::memset(dq, 0, sizeof(float) * static_cast<std::size_t>(dq_size));
  auto& block = *new (scratch.block.reserve(sizeof(Scratch))) Scratch;
  if (depth == 1 && width == 1) {
    run_blocks<1>(head, queries, gradients, j0, j1, dq, block);
  } else if (depth == 2 && width == 2) {
    run_blocks<2>(head, queries, gradients, j0, j1, dq, block);
  } else if (depth == 4 && width == 4) {
    run_blocks<4>(head, queries, gradients, j0, j1, dq, block);
  } else {
    run_blocks<0>(head, queries, gradients, j0, j1, dq, block);
  }
  if (gradients.dq) write_queries(head, dq, gradients.dq);
  if (gradients.half_dq) write_queries(head, dq, gradients.half_dq);
}

}  // namespace saddle::kernels

HWY_POP_ATTRIBUTES
