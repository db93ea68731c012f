#include "saddle/kernels/amx/amx.hpp"

#include <algorithm>

#include "saddle/kernels/amx/amx_core.hpp"
#include "saddle/kernels/stages/score_pass.hpp"
#include "saddle/kernels/stages/stage.hpp"
#include "saddle/primal/normaliser.hpp"

namespace saddle::kernels {

namespace {

using primal::Call;
using primal::Gradients;
using primal::Outputs;

// Heads are packed and used in groups that stay in the second-level caches.
constexpr double group_bytes = 4e6;

double count(Index n) { return static_cast<double>(n); }

LoopOptions amx_loop(const Dims& dims) {
  constexpr double least_shared_work = 1e6;
  return loop_for(dims, least_shared_work);
}

// Packed keys, values, queries and dy of one head.
double head_bytes(const Dims& d, bool backward) {
  const double width = count((d.D + 31) / 32 * 32 + (d.E + 31) / 32 * 32);
  const double keys = (count(d.M) + 32) * width, queries = (count(d.N) + 32) * width;
  return backward ? 4 * keys + 4 * queries + 4 * queries : 2 * keys;
}

Index group_size(const Dims& d, bool backward) {
  const auto fit = static_cast<Index>(group_bytes / std::max(1.0, head_bytes(d, backward)));
  return std::clamp<Index>(fit, std::min(enough_tasks, d.B * d.H), d.B * d.H);
}

// One head while its group is at work; packed memory is used again by the next group.
struct HeadPass {
  Index b = 0, h = 0;
  std::unique_ptr<Stage<float>> stage;
  std::unique_ptr<Visibility> visibility;
  AmxKeys keys;
  AmxQueries queries;
  AmxHead head;
  std::vector<float> y, lse, delta, dq;
  std::vector<float> unwanted;  // stands in for a dq that nobody asked for
  AmxRows dy;
  Stage<float>::Targets targets;

  void pack(AmxKeys& to, AmxKeys::Pass pass) const {
    const ScoreProblem<float>& p = stage->problem();
    const auto& keep = stage->keep();
    to.pack(pass, p.K, p.D, p.E, {stage->raw_k(), p.k}, {stage->raw_v(), p.v}, keep.empty() ? nullptr : keep.data());
  }

  void prepare(const Call& call, Index task, AmxKeys::Pass pass, bool need_row) {
    b = task / call.dims().H;
    h = task % call.dims().H;
    stage = std::make_unique<Stage<float>>(call, b, h, Goal::scores, true, need_row);
    const ScoreProblem<float>& p = stage->problem();
    visibility = std::make_unique<Visibility>(call, b, h, p.K, stage->keep(), stage->windows());
    pack(keys, pass);
    head = {p.N, p.K, p.D, p.E, {stage->raw_q(), p.q}, p.q_shift, p.q_factor, p.a, p.row, &keys, visibility.get()};
  }
};

// The heads of a group. Kept by the calling thread from call to call: touching fresh memory costs as much as the work
// on short sequences.
class Group {
 public:
  Group(const Dims& dims, bool backward) : heads_(kept()), bytes_(head_bytes(dims, backward)) {
    size_ = group_size(dims, backward);
    if (std::ssize(heads_) < size_) heads_.resize(size_);
  }
  ~Group() {
    for (HeadPass& pass : heads_) pass.stage.reset();
    if (bytes_ * count(size_) > 4 * group_bytes) heads_.clear();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  Index size() const { return size_; }
  HeadPass& operator[](Index slot) { return heads_[slot]; }

 private:
  static std::vector<HeadPass>& kept() {
    thread_local std::vector<HeadPass> heads;
    return heads;
  }

  std::vector<HeadPass>& heads_;
  double bytes_;
  Index size_ = 0;
};

// Whether whole heads keep all threads busy.
bool shares_evenly(Index heads) {
  const Index lanes = threads();
  return heads >= 8 * lanes || (heads >= 2 * lanes && heads % lanes == 0);
}

// Calls body(slot, task) for the heads of one group in parallel.
template <class Body>
void for_heads(const Dims& dims, Group& group, Index first, Body&& body) {
  const Index heads = dims.B * dims.H;
  const Index n = std::min(group.size(), heads - first);
  parallel_for(
      n, 1, [&](Index slot) { body(group[slot], first + slot); }, amx_loop(dims));
}

// Calls body(pass, task) for all heads in parallel, each by one thread in memory that this uses again for the next:
// what is packed stays in its second-level cache.
template <class Body>
void for_whole_heads(const Dims& dims, bool backward, Body&& body) {
  parallel_for(
      dims.B * dims.H, 1,
      [&](Index task) {
        thread_local HeadPass pass;
        body(pass, task);
        pass.stage.reset();
        if (head_bytes(dims, backward) > group_bytes) pass = HeadPass();
      },
      amx_loop(dims));
}

// Rows of y as bfloat16 where they need nothing more than rounding, else null.
Rows<BFloat16> half_rows(const Call& call, const TensorView& y, Index b, Index h) {
  if (y.dtype != DType::bf16 || y.stride[3] != 1 || call.attention.bias || call.attention.residual) return {};
  return {static_cast<BFloat16*>(y.data) + b * y.stride[0] + h * y.stride[1], y.stride[2]};
}

void amx_forward_call(const Call& call, const Outputs& outputs) {
  const Dims dims = call.dims();
  const Index heads = dims.B * dims.H, blocks = (dims.N + amx_queries - 1) / amx_queries;
  const OutputRows<float> rows(call, outputs.y);
  const auto prepare = [&](HeadPass& pass, Index task) {
    pass.prepare(call, task, AmxKeys::Pass::forward, static_cast<bool>(outputs.lse));
    if (outputs.lse) pass.lse.resize(dims.N);
    if (!half_rows(call, outputs.y, pass.b, pass.h)) pass.y.resize(dims.N * dims.E);
  };
  const auto run = [&](HeadPass& pass, Index i0, Index i1) {
    AmxOutputs block;
    block.half = half_rows(call, outputs.y, pass.b, pass.h);
    if (!block.half) block.full = {pass.y.data(), dims.E};
    if (outputs.lse) block.lse = pass.lse.data();
    amx_forward(pass.head, block, i0, i1);
    if (!block.half) rows.store(pass.b, pass.h, i0, i1 - i0, {pass.y.data() + i0 * dims.E, dims.E});
    if (outputs.lse) store_lse(outputs.lse, pass.b, pass.h, i0, pass.lse.data() + i0, i1 - i0);
  };
  if (shares_evenly(heads)) {
    for_whole_heads(dims, false, [&](HeadPass& pass, Index task) {
      prepare(pass, task);
      run(pass, 0, dims.N);
    });
    return;
  }
  Group group(dims, false);
  for (Index first = 0; first < heads; first += group.size()) {
    const Index n = std::min(group.size(), heads - first);
    for_heads(dims, group, first, prepare);
    parallel_for(
        n * blocks, 1,
        [&](Index task) {
          const Index i0 = (blocks - 1 - task % blocks) * amx_queries;
          run(group[task / blocks], i0, std::min(dims.N, i0 + amx_queries));
        },
        amx_loop(dims));
  }
}

Rows<float> or_own(Rows<float> target, Index rows, Index width, std::vector<float>& own) {
  if (target) return target;
  own.resize(rows * width);
  return {own.data(), width};
}

// lse and delta = dy . y of all queries: from the saved outputs, else by the forward pass again.
void row_statistics(const Call& call, const Gradients& gradients, HeadPass& pass, bool saved) {
  const AmxHead& head = pass.head;
  pass.lse.resize(head.N);
  pass.delta.resize(head.N);
  if (saved && pass.dy.half) {
    load_lse(gradients.lse, pass.b, pass.h, 0, pass.lse.data(), head.N);
    const Rows<BFloat16> y = half_rows(call, gradients.y, pass.b, pass.h);
    amx_deltas(pass.dy.half, y, head.N, head.E, pass.delta.data());
    return;
  }
  pass.y.resize(head.N * head.E);
  if (saved) {
    OutputRows<float>(call, gradients.y).load(pass.b, pass.h, 0, head.N, {pass.y.data(), head.E});
    load_lse(gradients.lse, pass.b, pass.h, 0, pass.lse.data(), head.N);
  } else {
    thread_local AmxKeys keys;  // packed for the other pass
    pass.pack(keys, AmxKeys::Pass::forward);
    AmxHead forward = head;
    forward.keys = &keys;
    AmxOutputs all;
    all.full = {pass.y.data(), head.E};
    all.lse = pass.lse.data();
    amx_forward(forward, all, 0, head.N);
  }
  row_deltas<float>(pass.dy.full, {pass.y.data(), head.E}, head.N, head.E, pass.delta.data());
}

void finish(const Gradients& gradients, HeadPass& pass, Index ranges, std::vector<std::vector<double>>& dtheta) {
  const AmxHead& head = pass.head;
  if (!pass.dq.empty()) add_ranges(pass.dq.data(), ranges, head.N, head.D, pass.targets.dq);
  pass.stage->pullback(gradients, dtheta);
}

void amx_backward_call(const Call& call, const Gradients& gradients) {
  const Dims dims = call.dims();
  const Index heads = dims.B * dims.H, ranges = key_ranges(dims, 4 * count(heads) * count(dims.N) * count(dims.D));
  const bool saved = has_saved_outputs(call, gradients);
  std::vector<std::vector<std::vector<double>>> dtheta(heads);
  const auto prepare = [&](HeadPass& pass, Index task) {
    pass.prepare(call, task, AmxKeys::Pass::backward, saved);
    pass.dy = {};
    if (saved && half_rows(call, gradients.y, pass.b, pass.h)) pass.dy.half = pass.stage->raw_dy(gradients);
    if (!pass.dy.half) pass.dy.full = pass.stage->dy(gradients);
    pass.targets = pass.stage->targets(gradients, ranges == 1);
    if (pass.targets.drow != nullptr) std::fill_n(pass.targets.drow, dims.N, 0.0f);  // r cancels
    row_statistics(call, gradients, pass, saved);
    pass.queries.pack(pass.head, pass.dy, pass.lse.data(), pass.delta.data());
    // Gradients that nobody wants are left out, but parts of dq are added up somewhere.
    if (ranges > 1) pass.targets.dq = or_own(pass.targets.dq, pass.head.N, pass.head.D, pass.unwanted);
    pass.dq.resize(ranges > 1 ? ranges * dims.N * pass.head.D : 0);
  };
  const auto run = [&](HeadPass& pass, Index range) {
    const Index K = pass.head.K, part = dims.N * pass.head.D;
    const auto edge = [&](Index r) { return r == ranges ? K : K * r / ranges / amx_keys * amx_keys; };
    const Stage<float>::Targets& to = pass.targets;
    AmxGradients block{to.dq, to.dk, to.dv, to.raw_dq, to.raw_dk, to.raw_dv};
    if (!pass.dq.empty()) block.dq = {pass.dq.data() + range * part, pass.head.D};
    if (ranges > 1 && edge(range) == edge(range + 1)) {
      std::fill_n(block.dq.data, part, 0.0f);
      return;
    }
    thread_local AmxScratch scratch;
    amx_backward(pass.head, pass.queries, block, edge(range), edge(range + 1), scratch);
  };
  if (ranges == 1 && shares_evenly(heads)) {
    for_whole_heads(dims, true, [&](HeadPass& pass, Index task) {
      prepare(pass, task);
      run(pass, 0);
      finish(gradients, pass, ranges, dtheta[task]);
    });
    write_parameter_gradients(call, gradients, dtheta);
    return;
  }
  Group group(dims, true);
  for (Index first = 0; first < heads; first += group.size()) {
    const Index n = std::min(group.size(), heads - first);
    for_heads(dims, group, first, prepare);
    parallel_for(
        n * ranges, 1, [&](Index task) { run(group[task / ranges], task % ranges); }, amx_loop(dims));
    for_heads(dims, group, first, [&](HeadPass& pass, Index task) { finish(gradients, pass, ranges, dtheta[task]); });
  }
  write_parameter_gradients(call, gradients, dtheta);
}

class Amx final : public Implementation {
 public:
  std::string_view name() const override { return "amx"; }
  std::string_view summary() const override { return "bfloat16 softmax on tile registers, float sums, O(N) memory"; }
  Isa isa() const override { return Isa::amx; }

  std::vector<std::string> refusals(const Request& request) const override {
    std::vector<std::string> list = stage_refusals(request.attention, Goal::scores);
    if (request.dtype != DType::bf16) list.emplace_back("the tiles multiply bf16 numbers only");
    if (best_isa() < Isa::amx) list.emplace_back("this machine, or SADDLE_MAX_ISA, has no AMX tiles");
    if (!std::holds_alternative<primal::ExpDot>(request.attention.kernel))
      list.emplace_back("the kernel is not exp(scale <x,x'>)");
    const auto* sum = std::get_if<primal::RowSum>(&request.attention.normaliser);
    if (sum == nullptr || den_eps_of(*sum, request.attention.kernel) != 0)
      list.emplace_back("the normaliser is not the plain row sum");
    if (is_steep(request.attention)) list.emplace_back("scale=std may stretch queries beyond what bf16 resolves");
    for (const primal::Transform& transform : request.attention.transforms) {
      const auto* bn = std::get_if<primal::BatchNorm>(&transform);
      if (bn != nullptr && ((bn->learnable() && request.backward) || request.beta_gradient))
        list.emplace_back("the gradient of beta is a small sum of large terms, too coarse in bf16");
    }
    if (request.dims.D > amx_max_width || request.dims.E > amx_max_width)
      list.emplace_back("rows are wider than " + std::to_string(amx_max_width));
    if (request.dropout) list.emplace_back("dropout is not part of the tile kernel");
    if (request.weights || request.column_sums) list.emplace_back("weights and column sums are not kept");
    return list;
  }

  Estimate estimate(const Request& request) const override {
    const Dims& d = request.dims;
    const int lanes = threads_of(request);
    Estimate estimate = score_estimate(request, name(), request.dtype);
    // Heads whose memory is held at the same time.
    const double group = count(std::max<Index>(group_size(d, request.backward), lanes)),
                 tokens = count(d.N + d.M) * count(d.D + d.E);
    estimate.memory =
        stage_memory(request.attention, d, request.dtype, Goal::scores, request.backward) +
        group * (2 * head_bytes(d, request.backward) + 4 * count(d.N) * count(d.E + 2) + 12 * count(d.M) + 8192);
    if (request.backward)
      estimate.memory +=
          group * 8 * tokens + most_partial_bytes + lanes * (4 * count(d.N + 128) * count(d.D + 32) + 1e6);
    return estimate;
  }
  void forward(const Call& call, const Outputs& outputs) const override { amx_forward_call(call, outputs); }
  void backward(const Call& call, const Gradients& gradients) const override { amx_backward_call(call, gradients); }
};

}  // namespace

const Implementation& amx() {
  static const Amx implementation;
  return implementation;
}

}  // namespace saddle::kernels
