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

// log h, or reference and h, and delta = dy . y of the queries of a block: from the saved outputs, else by the forward
// pass again.
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
  } else {
    TiledOutputs<T> block;
    block.y = {y.data(), p.E};
    block.reference = work.reference.data() + i0;
    block.h = work.h.data() + i0;
    kernels.forward(work.head, block, i0, tiled_scratch(kernels, p.D, p.E));
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

// Whether the weights can be had from the saved log-sum-exp: rounded at size L it spoils them by L epsilon, so large
// values call for the forward pass again.
bool precise_lse(const Call& call, const Gradients& gradients) {
  if (!has_saved_outputs(call, gradients) || is_steep(call.attention)) return false;
  constexpr double largest = 16;
  const Dims d = call.dims();
  const auto& s = gradients.lse.stride;
  for (Index b = 0; b < d.B; ++b)
    for (Index h = 0; h < d.H; ++h)
      for (Index i = 0; i < d.N; ++i) {
        const double lse = load(gradients.lse, b * s[0] + h * s[1] + i * s[2]);
        if (lse > largest || (lse < -largest && std::isfinite(lse))) return false;
      }
  return true;
}

// What is added to all scores of a query must be small too.
template <class T>
bool precise_rows(const TiledPasses<T>& heads) {
  constexpr T largest = 64;
  for (const auto& work : heads)
    for (Index i = 0; work->head.problem.row != nullptr && i < work->head.problem.N; ++i)
      if (!(std::fabs(work->head.problem.row[i]) <= largest)) return false;
  return true;
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
  block.h = work.h.data();
  block.delta = work.delta.data();
  block.dq = work.targets.dq;
  if (!work.dq.empty()) block.dq = {work.dq.data() + range * p.N * p.D, p.D};
  block.dk = dk.rows();
  block.dv = dv.rows();
  block.drow = work.targets.drow;
  block.dcolumn = work.targets.dcolumn;
  if (block.dcolumn != nullptr) std::fill(block.dcolumn + j0, block.dcolumn + j1, T{0});
  for (Index i0 = 0; i0 < p.N; i0 += kernels.queries)
    kernels.backward(head, block, i0, j0, j1, tiled_scratch(kernels, p.D, p.E));
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
  bool saved = exponential && row_sum && precise_lse(call, gradients);
  TiledPasses<T> heads = prepare_heads<T>(call, saved);
  saved = saved && precise_rows(heads);
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
        if (row_sum) work.delta.resize(dims.N);
        if (row_sum && saved) work.log_h.resize(dims.N);
        if (row_sum && !saved) {
          work.reference.resize(dims.N);
          work.h.resize(dims.N);
        }
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
