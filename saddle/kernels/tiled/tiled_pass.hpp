// What the forward and the backward pass of the tiled implementation share: the heads of a call and loops over them.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "saddle/kernels/stages/score_pass.hpp"
#include "saddle/kernels/stages/stage.hpp"
#include "saddle/kernels/tiled/gather.hpp"
#include "saddle/kernels/tiled/tiled_core.hpp"
#include "saddle/primal/dropout.hpp"

namespace saddle::kernels {

// T is the type to compute in.
template <class T>
void tiled_forward(const primal::Call& call, const primal::Outputs& outputs);
template <class T>
void tiled_backward(const primal::Call& call, const primal::Gradients& gradients);

// Once for a head with dropout; where they are not, the core looks for the rows in every block.
template <class T>
bool are_finite(Rows<const T> rows, Index n, Index width) {
  T zeros{};
  for (Index j = 0; j < n; ++j) {
    const T* row = rows[j];
#pragma omp simd reduction(+ : zeros)
    for (Index c = 0; c < width; ++c) zeros += row[c] - row[c];
  }
  return zeros == 0;
}

// Everything about one head while a pass runs.
template <class T>
struct TiledPass {
  TiledPass(const primal::Call& call, Index b, Index head_index, bool need_row)
      : stage(call, b, head_index, Goal::scores, false, need_row),
        visibility(call, b, head_index, stage.problem().K, stage.keep(), stage.windows()) {
    const ScoreProblem<T>& p = stage.problem();
    head.problem = p;
    head.visibility = &visibility;
    head.normaliser = primal::normaliser_rule(call.attention.normaliser, call.attention.kernel, p.N, p.K);
    head.dropout = {primal::dropout_threshold(call.dropout), primal::dropout_seed(call.dropout),
                    static_cast<std::uint32_t>(call.dropout.offset),
                    static_cast<std::uint32_t>(b * call.dims().H + head_index), primal::dropout_factor(call.dropout)};
    if (head.dropout.threshold > 0) head.finite = are_finite<T>(p.k, p.K, p.D) && are_finite<T>(p.v, p.K, p.E);
  }

  Stage<T> stage;
  Visibility visibility;
  TiledHead<T> head;
  std::vector<T> log_h, reference, h, delta;  // [N]
  // Backward; dq is that of each range of keys.
  std::vector<char> rerun;  // [blocks of queries]: reference and h are known, else log h
  Rows<const T> dy;
  typename Stage<T>::Targets targets;
  std::vector<T> dq;
};

template <class T>
using TiledPasses = std::vector<std::unique_ptr<TiledPass<T>>>;

inline LoopOptions tiled_loop(const primal::Call& call) {
  constexpr double least_shared_work = 1e5;
  return loop_for(call.dims(), least_shared_work);
}

template <class T>
TiledPasses<T> prepare_heads(const primal::Call& call, bool need_row) {
  const Dims dims = call.dims();
  TiledPasses<T> heads(dims.B * dims.H);
  parallel_for(
      dims.B * dims.H, 1,
      [&](Index task) { heads[task] = std::make_unique<TiledPass<T>>(call, task / dims.H, task % dims.H, need_row); },
      tiled_loop(call));
  return heads;
}

// Heads with many keys first: what is left at the end is small, so no core waits long.
template <class T>
std::vector<Index> heavy_first(const TiledPasses<T>& heads) {
  std::vector<Index> order(heads.size());
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](Index a, Index b) { return heads[a]->head.problem.K > heads[b]->head.problem.K; });
  return order;
}

// Calls body(head number, first query of a block) for all blocks of queries, in parallel.
template <class T, class Body>
void for_blocks(const primal::Call& call, const TiledPasses<T>& heads, Index queries, Body&& body) {
  const Index N = call.dims().N;
  const Index blocks = (N + queries - 1) / queries;
  const std::vector<Index> order = heavy_first(heads);
  parallel_for(
      std::ssize(heads) * blocks, 1,
      [&](Index task) { body(order[task / blocks], (blocks - 1 - task % blocks) * queries); }, tiled_loop(call));
}

// Memory of the core for this thread.
template <class T>
T* tiled_scratch(const TiledKernels<T>& kernels, Index D, Index E) {
  thread_local TiledScratch<T> memory(0);
  const auto need = static_cast<std::size_t>(kernels.scratch(D, E));
  if (memory.size() < need) memory = TiledScratch<T>(need);
  return memory.data();
}

}  // namespace saddle::kernels
