#include "calibrate.hpp"

#include <algorithm>
#include <cmath>

#include "contender.hpp"
#include "limits.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/primal/cost.hpp"
#include "statistics.hpp"

namespace saddle::bench {

namespace {

// Attention and shape on which an implementation shows what it can do: enough work for the caches to be warm.
struct Probe {
  const char* attention;
  Dims dims;
};
constexpr Probe probes[] = {{"softmax", {1, 4, 512, 512, 64, 64}}, {"linear(elu1)", {1, 4, 1024, 1024, 64, 64}}};

double best_seconds(const std::function<void()>& run, double seconds) {
  double best = INFINITY;
  const double end = now() + seconds;
  for (int call = 0; call < 3 || now() < end; ++call) {
    const double start = now();
    run();
    best = std::min(best, now() - start);
  }
  return best;
}

// What the estimate of this implementation would be if it reached every rate.
double ideal_seconds(const kernels::Rates& rates, const kernels::Implementation& implementation,
                     const primal::Cost& cost, DType dtype, bool backward) {
  kernels::Rates full = rates;
  full.efficiency.clear();
  full.efficiency[kernels::efficiency_key(implementation.name(), dtype, backward)] = 1;
  return full.seconds({implementation.name(), dtype, backward, cost.multiply_adds, cost.exps, 0, 1});
}

// The lowest prediction of those that accept.
double fastest(const kernels::Request& request) {
  double seconds = INFINITY;
  for (const mechanisms::Candidate& candidate : mechanisms::select(request).candidates)
    if (candidate.refusals.empty()) seconds = std::min(seconds, candidate.estimate.seconds);
  return seconds;
}

// One pass of one implementation on one thread.
void measure(kernels::Rates& rates, const kernels::Implementation& implementation, const Problem& problem,
             bool backward, double seconds) {
  const Row& row = problem.row();
  kernels::Request request = backward ? kernels::request_of(problem.call(), problem.gradients())
                                      : kernels::request_of(problem.call(), problem.outputs());
  request.threads = 1;
  if (implementation.is_reference() || !implementation.refusals(request).empty()) return;
  const kernels::Estimate estimate = implementation.estimate(request);
  // Not on work that would go to another implementation.
  if (estimate.seconds > 2 * fastest(request)) return;
  set_threads(1);
  const double measured = best_seconds(
      [&] {
        if (backward)
          implementation.backward(problem.call(), problem.gradients());
        else
          implementation.forward(problem.call(), problem.outputs());
      },
      seconds);
  primal::Cost cost = estimate.cost;
  if (backward) {  // the estimate counts both passes
    request.backward = false;
    cost += -1 * implementation.estimate(request).cost;
  }
  const double share = ideal_seconds(rates, implementation, cost, row.dtype, backward) / measured;
  // An implementation that suits several probes is judged by the one it does best.
  double& kept = rates.efficiency[kernels::efficiency_key(implementation.name(), row.dtype, backward)];
  kept = std::max(kept, share);
}

}  // namespace

kernels::Rates calibrate(double seconds, const std::function<void(const std::string&)>& progress) {
  const Isa isa = best_isa();
  const int cores = cpu().cores;
  progress("measuring the limits of this machine");
  const auto limits = measure_limits(isa, cores > 1 ? std::vector<int>{1, cores} : std::vector<int>{1},
                                     {std::clamp(seconds / 25, 0.001, 0.15), seconds >= 1});
  const Limits& one = limits.front();
  kernels::Rates rates;
  rates.calibrated = true;
  rates.fma_f32 = one.fma_f32 * 1e9 / 2;
  rates.fma_f64 = one.fma_f64 * 1e9 / 2;
  rates.amx_bf16 = one.amx_bf16 * 1e9 / 2;
  rates.exp_f32 = one.exp_f32 * 1e9;
  rates.exp_f64 = one.exp_f64 * 1e9;
  const kernels::Rates typical = kernels::default_rates(isa);
  rates.bandwidth = one.triad > 0 ? std::max(one.triad, one.read) * 1e9 : typical.bandwidth;
  rates.bandwidth_all = one.triad > 0 ? std::max(limits.back().triad, limits.back().read) * 1e9 : typical.bandwidth_all;
  const int before = threads();
  for (const Probe& probe : probes)
    for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      Row row;
      row.attention = probe.attention;
      row.dims = probe.dims;
      row.dtype = dtype;
      row.pass = Pass::training;
      progress("measuring " + to_string(row));
      const Problem problem(row);
      for (const kernels::Implementation* implementation : kernels::generic_implementations()) {
        if (implementation->isa() == Isa::scalar && isa != Isa::scalar) continue;  // too slow for rates to matter
        for (bool backward : {false, true})  // forward first: backward uses its y and lse
          measure(rates, *implementation, problem, backward, seconds / 8);
      }
    }
  set_threads(before);
  return rates;
}

}  // namespace saddle::bench
