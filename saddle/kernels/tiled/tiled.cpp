#include "saddle/kernels/tiled/tiled.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "saddle/base/parallel.hpp"
#include "saddle/kernels/rates.hpp"
#include "saddle/kernels/stages/stage.hpp"
#include "saddle/kernels/tiled/tiled_core.hpp"
#include "saddle/primal/dropout.hpp"

namespace saddle::kernels {

namespace {

using primal::Call;
using primal::Gradients;
using primal::Outputs;

// Backward tasks: few heads are cut into ranges of keys, as long as the partial dq of the ranges stay small.
constexpr Index enough_tasks = 8;
constexpr double most_partial_bytes = 32e6;

bool is_exponential(const primal::Attention& attention) {
  return std::holds_alternative<primal::ExpDot>(attention.kernel) ||
         std::holds_alternative<primal::Rbf>(attention.kernel);
}

// scale=std divides by deviations that may nearly vanish (few keys, equal keys); gradients multiply rounding by their
// inverse square, so they are computed in double.
bool is_steep(const primal::Attention& attention) {
  for (const primal::Transform& transform : attention.transforms)
    if (const auto* bn = std::get_if<primal::BatchNorm>(&transform); bn && bn->scale == primal::ScaleMode::std)
      return true;
  return false;
}

// Waking threads for less than this many multiply-adds costs more than it saves.
constexpr double least_shared_work = 1e5;

LoopOptions loop_for(const Call& call) {
  const Dims d = call.dims();
  const auto count = [](Index n) { return static_cast<double>(n); };
  const double work = count(d.B * d.H) * count(d.N) * count(d.M) * count(d.D + d.E);
  return {Schedule::dynamic, work < least_shared_work ? 1 : 0};
}

template <class T>
T* scratch(const TiledKernels<T>& kernels, Index D, Index E) {
  thread_local TiledScratch<T> memory(0);
  const auto need = static_cast<std::size_t>(kernels.scratch(D, E));
  if (memory.size() < need) memory = TiledScratch<T>(need);
  return memory.data();
}

// Everything about one head while a pass runs.
template <class T>
struct HeadPass {
  HeadPass(const Call& call, Index b, Index head_index, bool need_row)
      : stage(call, b, head_index, Goal::scores, false, need_row),
        visibility(call, b, head_index, stage.problem().K, stage.keep(), stage.windows()) {
    const ScoreProblem<T>& p = stage.problem();
    head.problem = p;
    head.visibility = &visibility;
    head.normaliser = primal::normaliser_rule(call.attention.normaliser, call.attention.kernel, p.N, p.K);
    head.dropout = {primal::dropout_threshold(call.dropout), primal::dropout_seed(call.dropout),
                    static_cast<std::uint32_t>(call.dropout.offset),
                    static_cast<std::uint32_t>(b * call.dims().H + head_index), primal::dropout_factor(call.dropout)};
  }

  Stage<T> stage;
  Visibility visibility;
  TiledHead<T> head;
  std::vector<T> log_h, reference, h, delta;  // [N]
  // Backward: padded sums where the target has no room for whole vectors, and dq of each range of keys.
  Rows<const T> dy;
  typename Stage<T>::Targets targets;
  std::vector<T> dk, dv, dq;
};

template <class T>
using Heads = std::vector<std::unique_ptr<HeadPass<T>>>;

template <class T>
Heads<T> prepare(const Call& call, bool need_row) {
  const Dims dims = call.dims();
  Heads<T> heads(dims.B * dims.H);
  parallel_for(
      dims.B * dims.H, 1,
      [&](Index task) { heads[task] = std::make_unique<HeadPass<T>>(call, task / dims.H, task % dims.H, need_row); },
      loop_for(call));
  return heads;
}

// Heads with many keys first: what is left at the end is small, so no core waits long.
template <class T>
std::vector<Index> heavy_first(const Heads<T>& heads) {
  std::vector<Index> order(heads.size());
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](Index a, Index b) { return heads[a]->head.problem.K > heads[b]->head.problem.K; });
  return order;
}

// Calls body(head number, first query of a block) for all blocks of queries, in parallel.
template <class T, class Body>
void for_blocks(const Call& call, const Heads<T>& heads, Index queries, Body&& body) {
  const Index N = call.dims().N;
  const Index blocks = (N + queries - 1) / queries;
  const std::vector<Index> order = heavy_first(heads);
  parallel_for(
      std::ssize(heads) * blocks, 1,
      [&](Index task) { body(order[task / blocks], (blocks - 1 - task % blocks) * queries); }, loop_for(call));
}

void store_values(const TensorView& tensor, Index offset, Index stride, const auto* values, Index count) {
  for (Index i = 0; i < count; ++i) store(tensor, offset + i * stride, static_cast<double>(values[i]));
}

template <class T>
void store_lse(const TensorView& lse, Index b, Index h, Index i, const T* values, Index count) {
  store_values(lse, b * lse.stride[0] + h * lse.stride[1] + i * lse.stride[2], lse.stride[2], values, count);
}

// Weights [N,K] of a block and sums over queries, in the type of the core first.
template <class T>
void forward_weights(const Outputs& outputs, const TiledKernels<T>& kernels, HeadPass<T>& work, Index b, Index h) {
  const ScoreProblem<T>& p = work.head.problem;
  std::vector<T> weights(outputs.weights ? kernels.queries * p.K : 0), sums(p.K, T{0});
  for (Index i0 = 0; i0 < p.N; i0 += kernels.queries) {
    const Index count = std::min(kernels.queries, p.N - i0);
    std::fill(weights.begin(), weights.end(), T{0});
    TiledOutputs<T> block;
    if (outputs.weights) block.weights = {weights.data(), p.K};
    if (outputs.column_sums) block.column_sums = sums.data();
    kernels.forward(work.head, block, i0, scratch(kernels, p.D, p.E));
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

template <class T>
void tiled_forward(const Call& call, const Outputs& outputs) {
  const TiledKernels<T>& kernels = tiled_kernels<T>();
  const Dims dims = call.dims();
  Heads<T> heads = prepare<T>(call, static_cast<bool>(outputs.lse));
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
    kernels.forward(head, block, i0, scratch(kernels, head.problem.D, dims.E));
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
        loop_for(call));
  else
    for_blocks(call, heads, kernels.queries, [&](Index task, Index i0) { block_of(heads[task]->head, task, i0); });
  if (outputs.weights || outputs.column_sums)
    parallel_for(
        dims.B * dims.H, 1,
        [&](Index task) { forward_weights(outputs, kernels, *heads[task], task / dims.H, task % dims.H); },
        loop_for(call));
}

template <class T>
T dot(const T* x, const T* y, Index n) {
  T sum = 0;
  for (Index e = 0; e < n; ++e) sum += x[e] * y[e];
  return sum;
}

// log h, or reference and h, and delta = dy . y of the queries of a block: from the saved outputs, else by the forward
// pass again.
template <class T>
void row_statistics(const Call& call, const Gradients& gradients, const TiledKernels<T>& kernels, HeadPass<T>& work,
                    Index b, Index h, Index i0, bool saved) {
  const ScoreProblem<T>& p = work.head.problem;
  const Index count = std::min(kernels.queries, p.N - i0);
  thread_local std::vector<T> y;
  y.resize(kernels.queries * p.E);
  if (saved) {
    OutputRows<T>(call, gradients.y).load(b, h, i0, count, {y.data(), p.E});
    const auto& s = gradients.lse.stride;
    for (Index i = i0; i < i0 + count; ++i)
      work.log_h[i] = static_cast<T>(load(gradients.lse, b * s[0] + h * s[1] + i * s[2]));
  } else {
    TiledOutputs<T> block;
    block.y = {y.data(), p.E};
    block.reference = work.reference.data() + i0;
    block.h = work.h.data() + i0;
    kernels.forward(work.head, block, i0, scratch(kernels, p.D, p.E));
  }
  for (Index i = 0; i < count; ++i) work.delta[i0 + i] = dot(work.dy[i0 + i], y.data() + i * p.E, p.E);
}

// Ranges of keys that share the backward pass of a head; depends on the shape alone.
template <class T>
Index key_ranges(const Dims& dims, const Heads<T>& heads) {
  double bytes = 0;
  for (const auto& work : heads) {
    if (work->targets.drow != nullptr) return 1;
    bytes += static_cast<double>(sizeof(T)) * static_cast<double>(dims.N) * static_cast<double>(work->head.problem.D);
  }
  const Index wanted = (enough_tasks + std::ssize(heads) - 1) / std::ssize(heads);
  const Index bound = std::max<Index>(1, static_cast<Index>(most_partial_bytes / std::max(bytes, 1.0)));
  return std::min({wanted, bound, std::max<Index>(1, dims.M / 256)});
}

// Rows the core may add to in whole vectors: the target itself, or padded memory.
template <class T>
Rows<T> roomy(Rows<T> target, Index K, Index width, Index lanes, std::vector<T>& memory) {
  if (!target) return target;
  if (width % lanes == 0) return target;
  const Index padded = (width + lanes - 1) / lanes * lanes;
  memory.assign(K * padded, T{0});
  return {memory.data(), padded};
}

template <class T>
void copy_rows(Rows<const T> from, Rows<T> to, Index rows, Index width) {
  if (!to || from.data == to.data) return;
  for (Index j = 0; j < rows; ++j) std::copy_n(from[j], width, to[j]);
}

template <class T>
void clear_rows(Rows<T> rows, Index begin, Index end, Index width) {
  if (rows)
    for (Index j = begin; j < end; ++j) std::fill_n(rows[j], width, T{0});
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

template <class T>
void tiled_backward(const Call& call, const Gradients& gradients) {
  const TiledKernels<T>& kernels = tiled_kernels<T>();
  const Dims dims = call.dims();
  const bool exponential = is_exponential(call.attention);
  const bool row_sum = std::holds_alternative<primal::RowSum>(call.attention.normaliser);
  const bool saved = exponential && row_sum && precise_lse(call, gradients);
  Heads<T> heads = prepare<T>(call, saved);
  const LoopOptions loop = loop_for(call);
  parallel_for(
      std::ssize(heads), 1,
      [&](Index task) {
        HeadPass<T>& work = *heads[task];
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

  const Index ranges = key_ranges(dims, heads);
  std::vector<Rows<T>> dk(heads.size()), dv(heads.size());
  for (std::size_t t = 0; t < heads.size(); ++t) {
    const ScoreProblem<T>& p = heads[t]->head.problem;
    dk[t] = roomy(heads[t]->targets.dk, p.K, p.D, kernels.lanes, heads[t]->dk);
    dv[t] = roomy(heads[t]->targets.dv, p.K, p.E, kernels.lanes, heads[t]->dv);
    if (ranges > 1 && heads[t]->targets.dq) heads[t]->dq.resize(ranges * p.N * p.D);
  }
  const std::vector<Index> order = heavy_first(heads);
  parallel_for(
      std::ssize(heads) * ranges, 1,
      [&](Index task) {
        const Index t = order[task / ranges], range = task % ranges;
        HeadPass<T>& work = *heads[t];
        const ScoreProblem<T>& p = work.head.problem;
        const Index j0 = p.K * range / ranges, j1 = p.K * (range + 1) / ranges;
        clear_rows(dk[t], j0, j1, p.D);
        clear_rows(dv[t], j0, j1, p.E);
        TiledGradients<T> block;
        block.dy = work.dy;
        block.log_h = work.log_h.data();
        block.reference = work.reference.data();
        block.h = work.h.data();
        block.delta = work.delta.data();
        block.dq = work.targets.dq;
        if (!work.dq.empty()) block.dq = {work.dq.data() + range * p.N * p.D, p.D};
        block.dk = dk[t];
        block.dv = dv[t];
        block.drow = work.targets.drow;
        block.dcolumn = work.targets.dcolumn;
        if (block.dcolumn != nullptr) std::fill(block.dcolumn + j0, block.dcolumn + j1, T{0});
        for (Index i0 = 0; i0 < p.N; i0 += kernels.queries)
          kernels.backward(work.head, block, i0, j0, j1, scratch(kernels, p.D, p.E));
      },
      loop_for(call));

  std::vector<std::vector<std::vector<double>>> dtheta(heads.size());
  parallel_for(
      std::ssize(heads), 1,
      [&](Index t) {
        HeadPass<T>& work = *heads[t];
        const ScoreProblem<T>& p = work.head.problem;
        for (Index range = 0; range < ranges && !work.dq.empty(); ++range)
          for (Index i = 0; i < p.N; ++i) {
            const T* part = work.dq.data() + (range * p.N + i) * p.D;
            T* to = work.targets.dq[i];
            for (Index c = 0; c < p.D; ++c) to[c] = range == 0 ? part[c] : to[c] + part[c];
          }
        copy_rows<T>({dk[t].data, dk[t].stride}, work.targets.dk, p.K, p.D);
        copy_rows<T>({dv[t].data, dv[t].stride}, work.targets.dv, p.K, p.E);
        work.stage.pullback(gradients, dtheta[t]);
      },
      loop);
  write_parameter_gradients(call, gradients, dtheta);
}

class Tiled final : public Implementation {
 public:
  std::string_view name() const override { return "tiled"; }
  std::string_view summary() const override {
    return "tiles of queries by keys with a running normaliser, O(N) memory, fused gradients";
  }
  Isa isa() const override { return tiled_kernels<float>().isa; }

  std::vector<std::string> refusals(const Request& request) const override {
    return stage_refusals(request.attention, Goal::scores);
  }

  Estimate estimate(const Request& request) const override {
    using primal::Form;
    using primal::Pass;
    const Dims& d = request.dims;
    const DType compute = request.dtype == DType::f64 ? DType::f64 : DType::f32;
    const int lanes = request.threads > 0 ? request.threads : threads();
    primal::Cost cost = attention_cost(request.attention, d, Form::dual, Pass::forward, request.dtype);
    double seconds = rates().seconds({name(), compute, false, cost.multiply_adds, cost.exps, cost.bytes, lanes});
    if (request.backward) {
      const primal::Cost back = attention_cost(request.attention, d, Form::dual, Pass::backward, request.dtype);
      const DType in = is_steep(request.attention) ? DType::f64 : compute;
      seconds += rates().seconds({name(), in, true, back.multiply_adds, back.exps, back.bytes, lanes});
      cost += back;
    }
    return {cost, seconds, memory(request, lanes)};
  }

  void forward(const Call& call, const Outputs& outputs) const override {
    if (call.dtype() == DType::f64)
      tiled_forward<double>(call, outputs);
    else
      tiled_forward<float>(call, outputs);
  }
  void backward(const Call& call, const Gradients& gradients) const override {
    if (call.dtype() == DType::f64 || is_steep(call.attention))
      tiled_backward<double>(call, gradients);
    else
      tiled_backward<float>(call, gradients);
  }

 private:
  static double memory(const Request& request, int lanes) {
    const Dims& d = request.dims;
    const auto count = [](Index n) { return static_cast<double>(n); };
    const bool in_double = request.dtype == DType::f64 || (request.backward && is_steep(request.attention));
    const double size = in_double ? 8 : 4, heads = count(d.B) * count(d.H);
    const bool finite = !score_form(request.attention.kernel, d.D).has_value();
    const Index D = finite ? feature_count(request.attention.kernel, d.D).value_or(d.D) : d.D;
    const Index scratch_size =
        request.dtype == DType::f64 ? tiled_kernels<double>().scratch(D, d.E) : tiled_kernels<float>().scratch(D, d.E);
    double bytes = stage_memory(request.attention, d, request.dtype, Goal::scores, request.backward);
    if (in_double && request.dtype != DType::f64)  // copies of everything
      bytes += 2 * heads * size * (count(d.N) * (count(d.D) + count(d.E)) + count(d.M) * (count(d.D) + count(d.E)));
    bytes += lanes * (size * (count(scratch_size) + 64 * count(d.E + 2)) + 4096);
    bytes += heads * (4096 + 8 * count(d.M) + (request.key_mask ? 2 * count(d.M) : 0));
    if (request.weights || request.column_sums) bytes += lanes * size * 65 * count(d.M);
    if (!request.backward) return bytes;
    const auto padded = [](Index width) { return static_cast<double>((width + 15) / 16 * 16); };
    bytes += heads * size * (4 * count(d.N) + count(d.M) * (padded(D) + padded(d.E)));
    return bytes + std::min(most_partial_bytes, enough_tasks * heads * size * count(d.N) * count(D));
  }
};

}  // namespace

const Implementation& tiled() {
  static const Tiled implementation;
  return implementation;
}

}  // namespace saddle::kernels
