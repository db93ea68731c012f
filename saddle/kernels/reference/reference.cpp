#include "saddle/kernels/reference/reference.hpp"

#include <algorithm>
#include <iterator>

#include "saddle/base/parallel.hpp"
#include "saddle/primal/features.hpp"
#include "saddle/primal/primal_form.hpp"
#include "saddle/primal/reference.hpp"

namespace saddle::kernels {

namespace {

using primal::Form;
using primal::Pass;

// Plain scalar loops over double; good to a factor of a few, enough to tell the forms apart.
constexpr double multiply_adds_per_second = 5e8;
constexpr double exps_per_second = 1e8;
constexpr double masks_per_second = 1e8;  // who sees what is asked for every pair

double count(Index n) { return static_cast<double>(n); }

// N M pairs of all heads, seen or not.
double all_pairs(const Request& request) {
  const Dims& d = request.dims;
  return count(d.B) * count(d.H) * count(d.N) * count(d.M);
}

// Heads are the tasks, so no more threads than heads help.
double predicted_seconds(const Request& request, const primal::Cost& cost) {
  const double lanes =
      std::clamp(count(threads_of(request)), 1.0, std::max(1.0, count(request.dims.B) * count(request.dims.H)));
  const double masks = all_pairs(request) * count(1 + std::ssize(request.attention.keys)) * (request.backward ? 2 : 1);
  return (cost.multiply_adds / multiply_adds_per_second + cost.exps / exps_per_second + masks / masks_per_second) /
         lanes;
}

// Doubles of one head's tokens: q, k, v before and after pooling, one copy per transform.
double head_doubles(const Request& request) {
  const Dims& d = request.dims;
  const double copies = count(3 + std::ssize(request.attention.transforms));
  return copies * (count(d.N) + count(d.M)) * (count(d.D) + count(d.E));
}

// All heads at once is the worst that any thread count can do; gradients of all heads are kept for a fixed sum.
double token_memory(const Request& request) {
  const double heads = count(request.dims.B) * count(request.dims.H);
  return 8 * heads * head_doubles(request) * (request.backward ? 2 : 1) + all_pairs(request);
}

primal::Cost total_cost(const Request& request, Form form) {
  primal::Cost cost = attention_cost(request.attention, request.dims, form, Pass::forward, DType::f64);
  if (request.backward) cost += attention_cost(request.attention, request.dims, form, Pass::backward, DType::f64);
  return cost;
}

// Tables of exponents or random directions that a feature map holds.
double table_memory(double features, Index D) { return features * (8 * count(D) + 64); }

// Features that the dual form goes through; none when kappa has a closed form.
double feature_tables(const primal::Kernel& kernel, Index D) {
  return score_form(kernel, D) ? 0 : count(feature_count(kernel, D).value_or(0));
}

class DualReference final : public Implementation {
 public:
  std::string_view name() const override { return "reference"; }
  std::string_view summary() const override { return "dual expansion in double, row by row"; }
  bool is_reference() const override { return true; }
  std::vector<std::string> refusals(const Request&) const override { return {}; }

  Estimate estimate(const Request& request) const override {
    const primal::Cost cost = total_cost(request, Form::dual);
    const double features = feature_tables(request.attention.kernel, request.dims.D);
    // Phi(k_j) is mapped again for every pair.
    primal::Cost work = cost;
    if (features > 0) {
      const double maps = all_pairs(request) * (request.backward ? 4 : 1);
      work.multiply_adds += maps * features;
      work.exps += maps * features;
    }
    return {cost, predicted_seconds(request, work),
            token_memory(request) + 8 * all_pairs(request) + 64 * features +
                table_memory(features, request.dims.D) * count(request.dims.B) * count(request.dims.H) + 8e4};
  }
  void forward(const primal::Call& call, const primal::Outputs& outputs) const override {
    reference_forward(call, outputs);
  }
  void backward(const primal::Call& call, const primal::Gradients& gradients) const override {
    reference_backward(call, gradients);
  }
};

class PrimalReference final : public Implementation {
 public:
  std::string_view name() const override { return "primal"; }
  std::string_view summary() const override { return "primal form in double: W and z, running sums if causal"; }

  std::vector<std::string> refusals(const Request& request) const override {
    auto list = primal_form_refusals(request.attention, request.mask);
    if (const auto features = feature_count(request.attention.kernel, request.dims.D);
        features && *features > primal::most_features)
      list.emplace_back("Phi has more features than can be stored at this width");
    if (request.dropout) list.emplace_back("dropout acts on single weights, which the primal form never computes");
    if (request.weights || request.column_sums)
      list.emplace_back("attention weights and column sums exist only in the dual form");
    return list;
  }
  Estimate estimate(const Request& request) const override {
    const primal::Cost cost = total_cost(request, Form::primal);
    const Dims& d = request.dims;
    const double features = count(feature_count(request.attention.kernel, d.D).value_or(0));
    const double heads = count(d.B) * count(d.H);
    const double state = heads * features * (2 * count(d.E) + 4 + count(d.N));
    return {cost, predicted_seconds(request, cost),
            token_memory(request) + 8 * state + heads * table_memory(features, d.D) + 8e4};
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
