// Softmax attention of one head on AMX tiles: bfloat16 operands, float sums. y_i = sum_j p_ij v_j with
// p_ij = exp(s_ij) / sum_j exp(s_ij) over the visible keys and s_ij = a <q_i,k_j> + r_i. Needs best_isa() == Isa::amx.
#pragma once

#include <cstddef>
#include <cstdint>

#include "saddle/base/dtype.hpp"
#include "saddle/kernels/amx/panels.hpp"
#include "saddle/kernels/stages/score_problem.hpp"
#include "saddle/kernels/tiled/visibility.hpp"

namespace saddle::kernels {

// Queries of a forward task: it starts at a multiple of this, and larger tasks are multiples of it too.
inline constexpr Index amx_queries = 128;

struct AmxHead {
  Index N = 0, K = 0, D = 0, E = 0;  // D and E at most amx_max_width
  AmxRows q;                         // [N,D]
  const float* q_shift = nullptr;    // [D]: the queries are (q - q_shift) q_factor; both or neither
  const float* q_factor = nullptr;   // [D]
  double a = 1;
  const float* row = nullptr;  // r [N]: shifts lse only
  const AmxKeys* keys = nullptr;
  const Visibility* visibility = nullptr;
};

// Exactly one of half and full; lse may be null. A query that sees nothing gets y = 0 and lse = -inf.
struct AmxOutputs {
  Rows<BFloat16> half;   // [N,E]
  Rows<float> full;      // [N,E]
  float* lse = nullptr;  // [N]
};

// Queries [i0,i1), i0 a multiple of amx_queries. Bits do not depend on how the queries are split into tasks.
SADDLE_API void amx_forward(const AmxHead& head, const AmxOutputs& outputs, Index i0, Index i1);

// Queries and dy of a head, packed once for the backward pass.
class SADDLE_API AmxQueries {
 public:
  // dy [N,E]; lse [N] as the forward pass wrote it; delta [N] = dy_i . y_i.
  void pack(const AmxHead& head, const AmxRows& dy, const float* lse, const float* delta);

  // Pairs of columns by rows, [N/32] times tiles [width/32][2][16][16][2].
  const BFloat16* q_columns() const { return q_columns_.data(); }
  const BFloat16* dy_columns() const { return dy_columns_.data(); }
  // Pairs of rows by columns, [N/32] times tiles [width/32][2][16][16][2]; tile 0 has the columns 0-3, 8-11, 16-19,
  // 24-27 and tile 1 the others.
  const BFloat16* q_rows() const { return q_rows_.data(); }
  const BFloat16* dy_rows() const { return dy_rows_.data(); }
  // (lse - r) log2 e, inf where the query sees nothing or does not exist; delta; [N] padded to 32.
  const float* reference() const { return reference_.data(); }
  const float* delta() const { return delta_.data(); }

 private:
  AmxBuffer<BFloat16> q_columns_, dy_columns_, q_rows_, dy_rows_;
  AmxBuffer<float> reference_, delta_;
};

// All rows of dq and the rows [j0,j1) of dk and dv are written. dq is for the queries after q_shift and q_factor, and
// holds the part that comes from the keys [j0,j1).
struct AmxGradients {
  Rows<float> dq, dk, dv;                                   // [N,D], [K,D], [K,E]
  Rows<BFloat16> half_dq = {}, half_dk = {}, half_dv = {};  // instead of those that are null, or null too
};

// delta [N] = dy_i . y_i of rows [N,E].
SADDLE_API void amx_deltas(Rows<const BFloat16> dy, Rows<const BFloat16> y, Index N, Index E, float* delta);

// Memory of the backward pass that a thread uses again from one call of amx_backward to the next.
struct AmxScratch {
  AmxBuffer<float> dq;
  AmxBuffer<std::byte> block;
};

// Keys of a backward task: it starts at a multiple of this.
inline constexpr Index amx_keys = 128;
// Keys [j0,j1) of a head whose keys were packed for Pass::backward.
SADDLE_API void amx_backward(const AmxHead& head, const AmxQueries& queries, const AmxGradients& gradients, Index j0,
                             Index j1, AmxScratch& scratch);

}  // namespace saddle::kernels
