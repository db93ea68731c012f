#include "saddle/kernels/tiled/tiled_pass.hpp"

namespace saddle::kernels {

using primal::Call;
using primal::Outputs;

namespace {

void store_values(const TensorView& tensor, Index offset, Index stride, const auto* values, Index count) {
  for (Index i = 0; i < count; ++i) store(tensor, offset + i * stride, static_cast<double>(values[i]));
}

// Weights [N,K] of a block and sums over queries, in the type of the core first.
template <class T>
void forward_weights(const Outputs& outputs, const TiledKernels<T>& kernels, TiledPass<T>& work, Index b, Index h) {
  const ScoreProblem<T>& p = work.head.problem;
  std::vector<T> weights(outputs.weights ? kernels.queries * p.K : 0), sums(p.K, T{0});
  for (Index i0 = 0; i0 < p.N; i0 += kernels.queries) {
    const Index count = std::min(kernels.queries, p.N - i0);
    std::fill(weights.begin(), weights.end(), T{0});
    TiledOutputs<T> block;
    if (outputs.weights) block.weights = {weights.data(), p.K};
    if (outputs.column_sums) block.column_sums = sums.data();
    kernels.forward(work.head, block, i0, tiled_scratch(kernels, p.D, p.E));
    if (!outputs.weights) continue;
    const auto& s = outputs.weights.stride;
    for (Index i = 0; i < count; ++i) {
      const Index at = b * s[0] + h * s[1] + (i0 + i) * s[2];
      store_values(outputs.weights, at, s[3], weights.data() + i * p.K, p.K);
      for (Index j = p.K; j < outputs.weights.shape[3]; ++j) store(outputs.weights, at + j * s[3], 0);
    }
  }
  if (!outputs.column_sums) return;
  const auto& s = outputs.column_sums.stride;
  store_values(outputs.column_sums, b * s[0] + h * s[1], s[2], sums.data(), p.K);
  for (Index j = p.K; j < outputs.column_sums.shape[2]; ++j)
    store(outputs.column_sums, b * s[0] + h * s[1] + j * s[2], 0);
}

// Rows of other heads lie between those of this one, as in a fused projection: walking over them again for every block
// of queries costs more than one copy.
template <class T>
bool is_scattered(const ScoreProblem<T>& p) {
  constexpr Index far_apart = 1024 / static_cast<Index>(sizeof(T));
  return (p.k.stride != p.D && p.k.stride >= far_apart) || (p.v.stride != p.E && p.v.stride >= far_apart);
}

// The head with its keys and values side by side in memory of this thread.
template <class T>
TiledHead<T> gathered(const TiledHead<T>& head) {
  thread_local std::vector<T> memory;
  const ScoreProblem<T>& p = head.problem;
  if (std::ssize(memory) < p.K * (p.D + p.E)) memory.resize(p.K * (p.D + p.E));
  T *k = memory.data(), *v = k + p.K * p.D;
  constexpr Index ahead = 16, line = 64 / static_cast<Index>(sizeof(T));  // no hardware foresees such strides
  for (Index j = 0; j < p.K; ++j) {
    const Index next = std::min(j + ahead, p.K - 1);
    for (Index c = 0; c < p.D; c += line) __builtin_prefetch(p.k[next] + c);
    for (Index e = 0; e < p.E; e += line) __builtin_prefetch(p.v[next] + e);
    std::copy_n(p.k[j], p.D, k + j * p.D);
    std::copy_n(p.v[j], p.E, v + j * p.E);
  }
  TiledHead<T> other = head;
  other.problem.k = {k, p.D};
  other.problem.v = {v, p.E};
  return other;
}

}  // namespace

template <class T>
void tiled_forward(const Call& call, const Outputs& outputs) {
  const TiledKernels<T>& kernels = tiled_kernels<T>();
  const Dims dims = call.dims();
  TiledPasses<T> heads = prepare_heads<T>(call, static_cast<bool>(outputs.lse));
  const OutputRows<T> y(call, outputs.y);
  const auto block_of = [&](const TiledHead<T>& head, Index task, Index i0) {
    const Index b = task / dims.H, h = task % dims.H, count = std::min(kernels.queries, dims.N - i0);
    const Rows<T> direct = y.direct(b, h);
    thread_local std::vector<T> rows, log_h;
    log_h.resize(kernels.queries);
    TiledOutputs<T> block;
    if (direct) {
      block.y = {direct[i0], direct.stride};
    } else {
      rows.resize(kernels.queries * dims.E);
      block.y = {rows.data(), dims.E};
    }
    if (outputs.lse) block.log_h = log_h.data();
    kernels.forward(head, block, i0, tiled_scratch(kernels, head.problem.D, dims.E));
    if (!direct) y.store(b, h, i0, count, {rows.data(), dims.E});
    if (outputs.lse) store_lse(outputs.lse, b, h, i0, log_h.data(), count);
  };
  // With heads for every thread, each thread takes whole heads and may copy theirs.
  if (std::ssize(heads) >= 4 * threads() && is_scattered(heads.front()->head.problem))
    parallel_for(
        std::ssize(heads), 1,
        [&](Index task) {
          const TiledHead<T> head = gathered(heads[task]->head);
          for (Index i0 = 0; i0 < dims.N; i0 += kernels.queries) block_of(head, task, i0);
        },
        tiled_loop(call));
  else
    for_blocks(call, heads, kernels.queries, [&](Index task, Index i0) { block_of(heads[task]->head, task, i0); });
  if (outputs.weights || outputs.column_sums)
    parallel_for(
        dims.B * dims.H, 1,
        [&](Index task) { forward_weights(outputs, kernels, *heads[task], task / dims.H, task % dims.H); },
        tiled_loop(call));
}

template void tiled_forward<float>(const Call&, const Outputs&);
template void tiled_forward<double>(const Call&, const Outputs&);

}  // namespace saddle::kernels
