#include "saddle/kernels/linear/linear.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "saddle/base/parallel.hpp"
#include "saddle/kernels/linear/head_pass.hpp"
#include "saddle/kernels/rates.hpp"
#include "saddle/kernels/stages/stage.hpp"
#include "saddle/primal/features.hpp"
#include "saddle/primal/primal_form.hpp"

namespace saddle::kernels {

namespace {

using namespace linear_kernel;
using primal::Form;
using primal::Pass;

// To set up one head for a pass.
constexpr double head_seconds = 3e-6;

double count(Index n) { return static_cast<double>(n); }

// Heads side by side, unless the parts of one head after the other keep the threads clearly busier. Causal parts side
// by side add up their keys twice.
Tasks part_tasks(const primal::Call& call) {
  const Dims dims = call.dims();
  const auto busy = [lanes = static_cast<Index>(threads())](Index tasks) {
    const Index rounds = (tasks + lanes - 1) / lanes;
    return rounds == 0 ? 1 : count(tasks) / count(rounds * lanes);
  };
  const double gain = is_causal(call.attention.keys) ? 0.7 : 0.9;
  return busy(dims.B * dims.H) >= gain * busy(Parts(std::max(dims.N, dims.M)).count) ? Tasks::in_order
                                                                                     : Tasks::side_by_side;
}

// body(head, workspace or null) for all heads. Heads that run one after the other in one thread share a workspace.
template <class T, class Body>
void each_head(const primal::Call& call, const FeaturePlan<T>& plan, typename Workspace<T>::Pass pass, Tasks tasks,
               Body&& body) {
  const Dims dims = call.dims();
  const Index heads = dims.B * dims.H;
  if (tasks == Tasks::side_by_side) {
    for (Index n = 0; n < heads; ++n) body(n, nullptr);
    return;
  }
  const auto run = [&](Index begin, Index end) {
    Workspace<T> work(dims.D, dims.E, plan, is_causal(call.attention.keys), pass);
    for (Index n = begin; n < end; ++n) body(n, &work);
  };
  parallel_for(heads, std::max<Index>(1, heads / 64), run, {Schedule::dynamic});
}

template <class T>
Problem<T> problem_of(const primal::Call& call, const Stage<T>& stage, const FeaturePlan<T>& plan,
                      const KeyOrder& keys) {
  const ScoreProblem<T>& rows = stage.problem();
  return {rows.N,
          rows.D,
          rows.E,
          plan.F,
          {rows.q, stage.raw_q()},
          {rows.k, stage.raw_k()},
          {rows.v, stage.raw_v()},
          &plan,
          &keys,
          normaliser_rule(call.attention.normaliser, call.attention.kernel, rows.N, rows.K)};
}

// log h, -inf for queries that see nothing.
template <class T>
void write_lse(const TensorView& lse, Index b, Index h, Index first, const Buffer<T>& normaliser) {
  for (Index i = 0; i < normaliser.size(); ++i)
    store(lse, b * lse.stride[0] + h * lse.stride[1] + i * lse.stride[2],
          i < first ? -std::numeric_limits<double>::infinity() : std::log(static_cast<double>(normaliser.data()[i])));
}

template <class T>
void forward_as(const Core<T>& core, const primal::Call& call, const primal::Outputs& outputs) {
  const Dims dims = call.dims();
  const FeaturePlan<T> plan(call.attention.kernel, dims.D);
  const OutputRows<T> rows(call, outputs.y);
  const Tasks tasks = part_tasks(call);
  each_head(call, plan, Workspace<T>::Pass::forward, tasks, [&](Index n, Workspace<T>* work) {
    const Index b = n / dims.H, h = n % dims.H;
    const Stage<T> stage(call, b, h, Goal::tokens, true);
    const KeyOrder keys = key_order(call, b, stage.problem().K, stage.keep(), stage.windows());
    Buffer<T> normaliser(dims.N);
    ForwardPass<T> pass;
    pass.h = normaliser.data();
    pass.y = rows.direct(b, h);
    pass.store = [&](Index i, Index n_rows, Rows<const T> y) { rows.store(b, h, i, n_rows, y); };
    run_forward(core, problem_of(call, stage, plan, keys), pass, tasks, work);
    if (outputs.lse) write_lse(outputs.lse, b, h, keys.first, normaliser);
  });
}

template <class T>
void backward_as(const Core<T>& core, const primal::Call& call, const primal::Gradients& gradients) {
  const Dims dims = call.dims();
  const FeaturePlan<T> plan(call.attention.kernel, dims.D);
  const Tasks tasks = part_tasks(call);
  std::vector<std::vector<std::vector<double>>> dtheta(dims.B * dims.H);
  each_head(call, plan, Workspace<T>::Pass::backward, tasks, [&](Index n, Workspace<T>* work) {
    const Index b = n / dims.H, h = n % dims.H;
    Stage<T> stage(call, b, h, Goal::tokens, true);
    const KeyOrder keys = key_order(call, b, stage.problem().K, stage.keep(), stage.windows());
    const auto targets = stage.targets(gradients);
    run_backward(core, problem_of(call, stage, plan, keys),
                 BackwardPass<T>{stage.dy(gradients), targets.dq, targets.dk, targets.dv}, tasks, work);
    stage.pullback(gradients, dtheta[n]);
  });
  write_parameter_gradients(call, gradients, dtheta);
}

class LinearKernel final : public Implementation {
 public:
  std::string_view name() const override { return "linear"; }
  std::string_view summary() const override {
    return "primal form by chunks of tokens: W and z, running sums if causal, O(F E) memory";
  }
  Isa isa() const override { return std::min(best_isa(), Isa::avx512); }

  std::vector<std::string> refusals(const Request& request) const override {
    auto list = primal_form_refusals(request.attention, request.mask);
    if (const auto features = feature_count(request.attention.kernel, request.dims.D);
        features && *features > primal::most_features)
      list.emplace_back("Phi has more features than can be stored at this width");
    if (request.weights || request.column_sums)
      list.emplace_back("attention weights and column sums exist only in the dual form");
    if (request.dropout) list.emplace_back("dropout acts on single weights, which the primal form never computes");
    if (list.empty()) list = stage_refusals(request.attention, Goal::tokens);
    return list;
  }

  Estimate estimate(const Request& request) const override {
    const Dims& d = request.dims;
    const Index heads = d.B * d.H, tasks = heads * Parts(std::max(d.N, d.M)).count;
    const int lanes = static_cast<int>(std::clamp<Index>(threads_of(request), 1, std::max<Index>(1, tasks)));
    Estimate estimate;
    for (Pass pass : {Pass::forward, Pass::backward}) {
      const bool backward = pass == Pass::backward;
      if (backward && !request.backward) break;
      const primal::Cost cost = attention_cost(request.attention, d, Form::primal, pass, request.dtype);
      const double added_up = 2 * cost.additions * (request.dtype == DType::f64 ? 8 : 4);
      estimate.cost += cost;
      estimate.seconds +=
          count(heads) * head_seconds / lanes +
          rates().seconds({name(), request.dtype, backward, cost.multiply_adds + further_products(request, pass),
                           cost.exps, cost.bytes + added_up, lanes});
    }
    estimate.memory = memory(request);
    return estimate;
  }

  void forward(const primal::Call& call, const primal::Outputs& outputs) const override {
    call.dtype() == DType::f64 ? forward_as(core<double>(isa()), call, outputs)
                               : forward_as(core<float>(isa()), call, outputs);
  }
  void backward(const primal::Call& call, const primal::Gradients& gradients) const override {
    call.dtype() == DType::f64 ? backward_as(core<double>(isa()), call, gradients)
                               : backward_as(core<float>(isa()), call, gradients);
  }

 private:
  // Multiply-adds that attention_cost does not count. Inside a chunk causal queries meet the keys themselves, half of
  // them; the backward pass maps the keys again, and takes gradients back through random directions.
  static double further_products(const Request& request, Pass pass) {
    const Dims& d = request.dims;
    const double F = count(feature_count(request.attention.kernel, d.D).value_or(0));
    const double heads = count(d.B) * count(d.H);
    double sum = 0;
    if (is_causal(request.attention.keys))
      sum += heads * count(d.N) * (count(chunk) / 2 + 8) * (F + count(d.E)) * (pass == Pass::backward ? 2.5 : 1);
    const auto* map = std::get_if<primal::Linear>(&request.attention.kernel);
    if (pass == Pass::backward && map && map->map == primal::FeatureMapKind::random)
      sum += heads * (count(d.N) + 2 * count(d.M)) * F * count(d.D);
    return sum;
  }

  // Heads side by side need one pass each; parts side by side one workspace each. Both are at most the threads' number.
  static double memory(const Request& request) {
    const Dims& d = request.dims;
    const bool wide = request.dtype == DType::f64;
    const Index tasks = std::max<Index>(1, std::min<Index>(threads_of(request), std::max<Index>(d.B * d.H, 16)));
    const Index F = feature_count(request.attention.kernel, d.D).value_or(0);
    Index monomials = F;
    if (const auto* polynomial = std::get_if<primal::Polynomial>(&request.attention.kernel))
      monomials = primal::monomial_count(d.D, polynomial->degree);
    const auto pass = wide ? pass_memory<double> : pass_memory<float>;
    return count(tasks) * pass(d.N, d.M, d.D, d.E, F, monomials, 1) +
           plan_memory(request.attention.kernel, d.D, wide ? 8 : 4) +
           stage_memory(request.attention, d, request.dtype, Goal::tokens, request.backward) + 8e4;
  }
};

}  // namespace

const Implementation& linear() {
  static const LinearKernel implementation;
  return implementation;
}

}  // namespace saddle::kernels
