#include <cmath>

#include "saddle/kernels/tiled/tiled_pass.hpp"

namespace saddle::kernels {

using primal::Call;
using primal::Gradients;

namespace {

bool is_exponential(const primal::Attention& attention) {
  return std::holds_alternative<primal::ExpDot>(attention.kernel) ||
         std::holds_alternative<primal::Rbf>(attention.kernel);
}

// Whether the weights of the queries of a block can be had from their log-sum-exp: rounded at size L it spoils them by
// L epsilon. What is added to all scores of a query must be small too.
template <class T>
bool is_precise(const TiledPass<T>& work, Index i0, Index count) {
  constexpr T largest = 16, largest_row = 64;
  const T* row = work.head.problem.row;
  for (Index i = i0; i < i0 + count; ++i) {
    const T lse = work.log_h[i];
    if (lse > largest || (lse < -largest && std::isfinite(lse))) return false;
    if (row != nullptr && !(std::fabs(row[i]) <= largest_row)) return false;
  }
  return true;
}

// log h, or reference and h, and delta = dy . y of the queries of a block: from the saved outputs as far as they serve,
// else by the forward pass again.
template <class T>
void row_statistics(const Call& call, const Gradients& gradients, const TiledKernels<T>& kernels, TiledPass<T>& work,
                    Index b, Index h, Index i0, bool saved) {
  const ScoreProblem<T>& p = work.head.problem;
  const Index count = std::min(kernels.queries, p.N - i0);
  thread_local std::vector<T> y;
  y.resize(kernels.queries * p.E);
  if (saved) {
    OutputRows<T>(call, gradients.y).load(b, h, i0, count, {y.data(), p.E});
    load_lse(gradients.lse, b, h, i0, work.log_h.data() + i0, count);
  }
  const bool rerun = !saved || !is_precise(work, i0, count);
  work.rerun[i0 / kernels.queries] = rerun;
  if (rerun) {
    TiledHead<T> head = work.head;
    TiledOutputs<T> block;
    if (saved)
      head.dropout = {};  // which only y has
    else
      block.y = {y.data(), p.E};
    block.reference = work.reference.data() + i0;
    block.h = work.h.data() + i0;
    kernels.forward(head, block, i0, tiled_scratch(kernels, p.D, p.E));
  }
  row_deltas<T>({work.dy[i0], work.dy.stride}, {y.data(), p.E}, count, p.E, work.delta.data() + i0);
}

// Ranges of keys that share the backward pass of a head: one where sums over all keys of a query are wanted.
template <class T>
Index ranges_of(const Dims& dims, const TiledPasses<T>& heads) {
  double bytes = 0;
  for (const auto& work : heads) {
    if (work->targets.drow != nullptr) return 1;
    bytes += static_cast<double>(sizeof(T)) * static_cast<double>(dims.N) * static_cast<double>(work->head.problem.D);
  }
  return key_ranges(dims, bytes);
}

// All queries of a head against one range of its keys.
template <class T>
void backward_range(const TiledKernels<T>& kernels, TiledPass<T>& work, Index range, Index ranges) {
  const ScoreProblem<T>& p = work.head.problem;
  const Index j0 = p.K * range / ranges, j1 = p.K * (range + 1) / ranges;
  const TiledHead<T> head = is_scattered(p) ? gathered(work.head, j0, j1) : work.head;
  const RowSums<T> dk(work.targets.dk, p.K, p.D, kernels.lanes, j0, j1);
  const RowSums<T> dv(work.targets.dv, p.K, p.E, kernels.lanes, j0, j1);
  TiledGradients<T> block;
  block.dy = work.dy;
  block.log_h = work.log_h.data();
  block.reference = work.reference.data();
  block.delta = work.delta.data();
  block.dq = work.targets.dq;
  if (!work.dq.empty()) block.dq = {work.dq.data() + range * p.N * p.D, p.D};
  block.dk = dk.rows();
  block.dv = dv.rows();
  block.drow = work.targets.drow;
  block.dcolumn = work.targets.dcolumn;
  if (block.dcolumn != nullptr) std::fill(block.dcolumn + j0, block.dcolumn + j1, T{0});
  for (Index i0 = 0; i0 < p.N; i0 += kernels.queries) {
    const bool rerun = !work.rerun.empty() && work.rerun[i0 / kernels.queries] != 0;
    block.h = rerun ? work.h.data() : nullptr;
    kernels.backward(head, block, i0, j0, j1, tiled_scratch(kernels, p.D, p.E));
  }
  dk.write();
  dv.write();
}

}  // namespace

template <class T>
void tiled_backward(const Call& call, const Gradients& gradients) {
  const TiledKernels<T>& kernels = tiled_kernels<T>();
  const Dims dims = call.dims();
  const bool exponential = is_exponential(call.attention);
  const bool row_sum = std::holds_alternative<primal::RowSum>(call.attention.normaliser);
  const bool saved = exponential && row_sum && has_saved_outputs(call, gradients) && !is_steep(call.attention);
  TiledPasses<T> heads = prepare_heads<T>(call, saved);
  const LoopOptions loop = tiled_loop(call);
  parallel_for(
      std::ssize(heads), 1,
      [&](Index task) {
        TiledPass<T>& work = *heads[task];
        work.targets = work.stage.targets(gradients);
        if (work.targets.drow != nullptr && exponential && work.head.normaliser.den_eps == 0 && row_sum) {
          std::fill_n(work.targets.drow, dims.N, T{0});  // what is added to all scores of a query cancels
          work.targets.drow = nullptr;
        }
        work.dy = work.stage.dy(gradients);
        if (!row_sum) return;
        for (std::vector<T>* x : {&work.delta, &work.log_h, &work.reference, &work.h}) x->resize(dims.N);
        work.rerun.resize((dims.N + kernels.queries - 1) / kernels.queries);
      },
      loop);
  if (row_sum)
    for_blocks(call, heads, kernels.queries, [&](Index task, Index i0) {
      row_statistics(call, gradients, kernels, *heads[task], task / dims.H, task % dims.H, i0, saved);
    });

  const Index ranges = ranges_of(dims, heads);
  for (const auto& work : heads)
    if (ranges > 1 && work->targets.dq) work->dq.resize(ranges * work->head.problem.N * work->head.problem.D);
  const std::vector<Index> order = heavy_first(heads);
  parallel_for(
      std::ssize(heads) * ranges, 1,
      [&](Index task) { backward_range(kernels, *heads[order[task / ranges]], task % ranges, ranges); }, loop);

  std::vector<std::vector<std::vector<double>>> dtheta(heads.size());
  parallel_for(
      std::ssize(heads), 1,
      [&](Index t) {
        TiledPass<T>& work = *heads[t];
        const ScoreProblem<T>& p = work.head.problem;
        if (!work.dq.empty()) add_ranges(work.dq.data(), ranges, p.N, p.D, work.targets.dq);
        work.stage.pullback(gradients, dtheta[t]);
      },
      loop);
  write_parameter_gradients(call, gradients, dtheta);
}

template void tiled_backward<float>(const Call&, const Gradients&);
template void tiled_backward<double>(const Call&, const Gradients&);

}  // namespace saddle::kernels
