#include "saddle/kernels/reference/reference.hpp"

#include <algorithm>

#include "saddle/base/parallel.hpp"
#include "saddle/primal/primal_form.hpp"
#include "saddle/primal/reference.hpp"

namespace saddle::kernels {

namespace {

using primal::Form;
using primal::Pass;

// Plain scalar loops over double, measured within a factor of two on current CPUs.
constexpr double multiply_adds_per_second = 6e8;
constexpr double exps_per_second = 1e8;

int threads_of(const Request& request) { return request.threads > 0 ? request.threads : threads(); }

// Heads are the tasks, so no more threads than heads help.
double predicted_seconds(const Request& request, const primal::Cost& cost) {
  const double tasks = static_cast<double>(request.dims.B * request.dims.H);
  const double lanes = std::clamp(static_cast<double>(threads_of(request)), 1.0, tasks);
  return (cost.multiply_adds / multiply_adds_per_second + cost.exps / exps_per_second) / lanes;
}

// Doubles of one head's tokens: q, k, v before and after pooling, one copy per transform.
double head_doubles(const Request& request) {
  const Dims& d = request.dims;
  const auto copies = static_cast<double>(3 + request.attention.transforms.size());
  return copies * static_cast<double>(d.N * d.D + d.M * d.D + d.M * d.E + d.N * d.E);
}

// All heads at once is the worst that any thread count can do; gradients of all heads are kept for a fixed sum.
double token_memory(const Request& request) {
  const double heads = static_cast<double>(request.dims.B * request.dims.H);
  return 8 * heads * head_doubles(request) * (request.backward ? 2 : 1) +
         heads * static_cast<double>(request.dims.N * request.dims.M);
}

primal::Cost total_cost(const Request& request, Form form) {
  primal::Cost cost = attention_cost(request.attention, request.dims, form, Pass::forward, DType::f64);
  if (request.backward) cost += attention_cost(request.attention, request.dims, form, Pass::backward, DType::f64);
  return cost;
}

class DualReference final : public Implementation {
 public:
  std::string_view name() const override { return "reference"; }
  std::string_view summary() const override { return "dual expansion in double, row by row"; }
  bool is_reference() const override { return true; }
  std::vector<std::string> refusals(const Request&) const override { return {}; }

  Estimate estimate(const Request& request) const override {
    const primal::Cost cost = total_cost(request, Form::dual);
    const Dims& d = request.dims;
    const double pairs = static_cast<double>(d.B * d.H) * static_cast<double>(d.N * d.M);
    const double features = static_cast<double>(feature_count(request.attention.kernel, d.D).value_or(0));
    return {cost, predicted_seconds(request, cost),
            token_memory(request) + 8 * pairs + 64 * features + monomial_memory(features, d.D) + 8e4};
  }
  void forward(const primal::Call& call, const primal::Outputs& outputs) const override {
    reference_forward(call, outputs);
  }
  void backward(const primal::Call& call, const primal::Gradients& gradients) const override {
    reference_backward(call, gradients);
  }

  // Tables of exponents or random directions that a feature map holds.
  static double monomial_memory(double features, Index D) { return features * (8.0 * static_cast<double>(D) + 64); }
};

class PrimalReference final : public Implementation {
 public:
  std::string_view name() const override { return "primal"; }
  std::string_view summary() const override { return "primal form in double: W and z, running sums if causal"; }

  std::vector<std::string> refusals(const Request& request) const override {
    auto list = primal_form_refusals(request.attention, request.mask);
    if (request.weights || request.column_sums)
      list.emplace_back("attention weights and column sums exist only in the dual form");
    return list;
  }
  Estimate estimate(const Request& request) const override {
    const primal::Cost cost = total_cost(request, Form::primal);
    const Dims& d = request.dims;
    const double features = static_cast<double>(feature_count(request.attention.kernel, d.D).value_or(0));
    const double heads = static_cast<double>(d.B * d.H);
    const double state = heads * features * static_cast<double>(2 * d.E + 4 + d.N);
    return {cost, predicted_seconds(request, cost),
            token_memory(request) + 8 * state + heads * DualReference::monomial_memory(features, d.D) + 8e4};
  }
  void forward(const primal::Call& call, const primal::Outputs& outputs) const override {
    primal_forward(call, outputs);
  }
  void backward(const primal::Call& call, const primal::Gradients& gradients) const override {
    primal_backward(call, gradients);
  }
};

}  // namespace

const Implementation& dual_reference() {
  static const DualReference implementation;
  return implementation;
}

const Implementation& primal_reference() {
  static const PrimalReference implementation;
  return implementation;
}

}  // namespace saddle::kernels
