#include "saddle/primal/cost.hpp"

#include <map>

#include "saddle/primal/features.hpp"
#include "saddle/primal/primal_form.hpp"

namespace saddle::primal {

namespace {

double as_double(Index n) { return static_cast<double>(n); }

// Multiply-adds and exps of Phi at one point.
Cost feature_cost(const Kernel& kernel, Index D, Index F) {
  Cost cost;
  if (const auto* linear = std::get_if<Linear>(&kernel)) {
    switch (linear->map) {
      case FeatureMapKind::elu1: cost.exps = as_double(D); break;
      case FeatureMapKind::relu: break;
      case FeatureMapKind::taylor: cost.multiply_adds = as_double(F); break;
      case FeatureMapKind::random:
        cost.multiply_adds = as_double(F) * as_double(D);
        cost.exps = as_double(F);
        break;
    }
  } else if (std::holds_alternative<Polynomial>(kernel)) {
    cost.multiply_adds = as_double(F);
  }
  return cost;
}

// Multiply-adds of T at one token.
double transform_cost(const Transform& transform, Index D) {
  if (const auto* conv = std::get_if<Conv1d>(&transform)) return as_double(D * conv->size);
  if (const auto* conv = std::get_if<Conv2d>(&transform)) return as_double(D * conv->size.size());
  if (std::holds_alternative<L2>(transform)) return 2 * as_double(D);
  return as_double(D);
}

// Heads with the same pooling factor and the same group of columns do the same work, so it is counted once.
using HeadKind = std::pair<Index, Index>;
HeadKind kind_of(const Attention& attention, const Dims& dims, Index head) {
  Index group = 0;
  for (const KeySet& part : attention.keys)
    if (const auto* fixed = std::get_if<Fixed>(&part)) group = head % fixed->num_verts;
  return {factor_of(attention, dims, head), group};
}

bool is_exponential(const Kernel& kernel) {
  return std::holds_alternative<ExpDot>(kernel) || std::holds_alternative<Rbf>(kernel);
}

}  // namespace

Cost& Cost::operator+=(const Cost& other) {
  multiply_adds += other.multiply_adds;
  additions += other.additions;
  exps += other.exps;
  bytes += other.bytes;
  memory += other.memory;
  return *this;
}

Cost operator+(Cost a, const Cost& b) { return a += b; }

Cost operator*(double factor, Cost a) {
  for (double* part : {&a.multiply_adds, &a.additions, &a.exps, &a.bytes, &a.memory}) *part *= factor;
  return a;
}

Cost head_cost(const Attention& attention, const Dims& dims, Index head, Form form, Pass pass, DType dtype) {
  const Index K = keys_of(attention, dims, head);
  const double N = as_double(dims.N), M = as_double(dims.M), k = as_double(K), D = as_double(dims.D),
               E = as_double(dims.E), size = static_cast<double>(size_of(dtype));
  const bool back = pass == Pass::backward;
  Cost cost;

  // Inputs and outputs once; the backward pass also reads dy and writes three gradients.
  const double tensors = N * D + M * D + M * E;
  cost.bytes = size * (back ? 2 * tensors + 2 * N * E : tensors + N * E);

  if (attention.pooling) cost.additions = M * (D + E) * (back ? 2 : 1);
  for (std::size_t t = 0; t < attention.transforms.size(); ++t) {
    const double tokens = t < first_per_query_transform(attention) ? N + k : N + visible_pairs(attention, dims, head);
    cost.multiply_adds += (back ? 2 : 1) * tokens * transform_cost(attention.transforms[t], dims.D);
  }

  const auto F = feature_count(attention.kernel, dims.D);
  if (form == Form::primal) {
    const double f = as_double(F.value_or(0));
    cost += (N + k) * feature_cost(attention.kernel, dims.D, F.value_or(0));
    // forward: W, then W Phi(q), then z.Phi(q). backward: W again, dPhi(q), dW, dPhi(k), dv.
    cost.multiply_adds += back ? (3 * k + 2 * N) * f * E + 3 * N * f : (N + k) * f * E + N * f;
    cost.memory += size * f * (E + 1) * (back ? 2 : 1);
    return cost;
  }
  const double pairs = visible_pairs(attention, dims, head);
  const bool by_features = !score_form(attention.kernel, dims.D).has_value();
  const double width = by_features ? as_double(*F) : D;
  if (by_features) cost += (N + k) * feature_cost(attention.kernel, dims.D, *F);
  // forward: scores and values. backward: scores again, dA, dV, dq, dk.
  cost.multiply_adds += pairs * (back ? 3 * width + 2 * E : width + E);
  if (is_exponential(attention.kernel)) cost.exps += pairs;
  cost.memory += size * pairs * (back ? 2 : 1);
  return cost;
}

Cost attention_cost(const Attention& attention, const Dims& dims, Form form, Pass pass, DType dtype) {
  std::map<HeadKind, Cost> known;
  Cost cost;
  for (Index h = 0; h < dims.H; ++h) {
    const auto [kind, fresh] = known.try_emplace(kind_of(attention, dims, h));
    if (fresh) kind->second = head_cost(attention, dims, h, form, pass, dtype);
    cost += kind->second;
  }
  return as_double(dims.B) * cost;
}

Cost layer_cost(const Attention& attention, const Dims& dims, Index X, Form form, Pass pass, DType dtype) {
  Cost cost = attention_cost(attention, dims, form, pass, dtype);
  const double N = as_double(dims.N), x = as_double(X), D = as_double(dims.D), E = as_double(dims.E),
               B = as_double(dims.B), size = static_cast<double>(size_of(dtype));
  double products = 0, tokens = 0;
  for (Index h = 0; h < dims.H; ++h) {
    const double k = as_double(keys_of(attention, dims, h));  // X is pooled before it is projected to K and V
    products += N * x * D + k * x * (D + E) + N * E * x;
    tokens += N * D + k * (D + E) + N * E;
  }
  const double weights = as_double(dims.H) * x * (2 * D + 2 * E);
  cost.multiply_adds += (pass == Pass::backward ? 2 : 1) * B * products;
  cost.bytes += size * (pass == Pass::backward ? 2 : 1) * (2 * B * N * x + weights);
  cost.memory += size * B * tokens;
  return cost;
}

Form cheaper_form(const Attention& attention, const Dims& dims) {
  if (!primal_form_refusals(attention, false).empty()) return Form::dual;
  const auto F = feature_count(attention.kernel, dims.D);
  std::map<HeadKind, double> pairs;
  double primal = 0, dual = 0;
  for (Index h = 0; h < dims.H; ++h) {
    const auto [kind, fresh] = pairs.try_emplace(kind_of(attention, dims, h));
    if (fresh) kind->second = visible_pairs(attention, dims, h);
    const double k = as_double(keys_of(attention, dims, h));
    primal += as_double(*F) * as_double(dims.E) * (as_double(dims.N) + k);
    dual += kind->second * as_double(dims.D + dims.E);
  }
  return primal < dual ? Form::primal : Form::dual;
}

}  // namespace saddle::primal
