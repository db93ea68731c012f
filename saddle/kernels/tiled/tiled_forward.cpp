#include "saddle/kernels/tiled/tiled_pass.hpp"

namespace saddle::kernels {

using primal::Call;
using primal::Outputs;

namespace {

void store_values(const TensorView& tensor, Index offset, Index stride, const auto* values, Index count) {
  for (Index i = 0; i < count; ++i) store(tensor, offset + i * stride, static_cast<double>(values[i]));
}

// weights [count,K] of a block into those of the call; what lies behind the keys of a head is 0.
template <class T>
void store_weights(const TensorView& to, Index b, Index h, Index i0, Index count, Index K, const T* weights) {
  const auto& s = to.stride;
  for (Index i = 0; i < count; ++i) {
    const Index at = b * s[0] + h * s[1] + (i0 + i) * s[2];
    store_values(to, at, s[3], weights + i * K, K);
    for (Index j = K; j < to.shape[3]; ++j) store(to, at + j * s[3], 0);
  }
}

template <class T>
void store_sums(const TensorView& to, Index b, Index h, const std::vector<T>& sums) {
  const auto& s = to.stride;
  const Index at = b * s[0] + h * s[1], K = std::ssize(sums);
  store_values(to, at, s[2], sums.data(), K);
  for (Index j = K; j < to.shape[2]; ++j) store(to, at + j * s[2], 0);
}

}  // namespace

template <class T>
void tiled_forward(const Call& call, const Outputs& outputs) {
  const TiledKernels<T>& kernels = tiled_kernels<T>();
  const Dims dims = call.dims();
  TiledPasses<T> heads = prepare_heads<T>(call, static_cast<bool>(outputs.lse));
  const OutputRows<T> y(call, outputs.y);
  // sums [K]: where the column sums of this block are added, or null.
  const auto block_of = [&](const TiledHead<T>& head, Index task, Index i0, T* sums) {
    const Index b = task / dims.H, h = task % dims.H, count = std::min(kernels.queries, dims.N - i0);
    const Index K = head.problem.K;
    const Rows<T> direct = y.direct(b, h);
    thread_local std::vector<T> rows, log_h;
    std::vector<T> weights(outputs.weights ? kernels.queries * K : 0, T{0});
    log_h.resize(kernels.queries);
    TiledOutputs<T> block;
    if (direct) {
      block.y = {direct[i0], direct.stride};
    } else {
      rows.resize(kernels.queries * dims.E);
      block.y = {rows.data(), dims.E};
    }
    if (outputs.lse) block.log_h = log_h.data();
    if (outputs.weights) block.weights = {weights.data(), K};
    block.column_sums = sums;
    kernels.forward(head, block, i0, tiled_scratch(kernels, head.problem.D, dims.E));
    if (!direct) y.store(b, h, i0, count, {rows.data(), dims.E});
    if (outputs.lse) store_lse(outputs.lse, b, h, i0, log_h.data(), count);
    if (outputs.weights) store_weights(outputs.weights, b, h, i0, count, K, weights.data());
  };
  // With heads for every thread, each thread takes whole heads and may copy theirs; column sums are added block by
  // block.
  const bool gathers = std::ssize(heads) >= 4 * threads() &&
                       std::ranges::any_of(heads, [](const auto& work) { return is_scattered(work->head.problem); });
  if (gathers || outputs.column_sums)
    parallel_for(
        std::ssize(heads), 1,
        [&](Index task) {
          TiledHead<T> head = heads[task]->head;
          if (gathers && is_scattered(head.problem)) head = gathered(head, 0, head.problem.K);
          std::vector<T> sums(outputs.column_sums ? head.problem.K : 0, T{0});
          for (Index i0 = 0; i0 < dims.N; i0 += kernels.queries)
            block_of(head, task, i0, outputs.column_sums ? sums.data() : nullptr);
          if (outputs.column_sums) store_sums(outputs.column_sums, task / dims.H, task % dims.H, sums);
        },
        tiled_loop(call));
  else
    for_blocks(call, heads, kernels.queries,
               [&](Index task, Index i0) { block_of(heads[task]->head, task, i0, nullptr); });
}

template void tiled_forward<float>(const Call&, const Outputs&);
template void tiled_forward<double>(const Call&, const Outputs&);

}  // namespace saddle::kernels
