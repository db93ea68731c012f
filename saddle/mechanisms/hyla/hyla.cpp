#include "saddle/mechanisms/hyla/hyla.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "saddle/mechanisms/layer_internal.hpp"
#include "saddle/mechanisms/layer_weights_internal.hpp"

namespace saddle::mechanisms::hyla {

namespace {

using tape::Value;

// x [B,N,X] through kernel [X,H,W] and bias [H,W], if there is one -> [B,H,N,W]
Value heads_of(const LayerInputs& inputs, const std::string& name) {
  const Value kernel = weight_of(inputs.weights, name + ".kernel", Hyla::name),
              bias = weight_or_none(inputs.weights, name + ".bias");
  const Index H = kernel.size(1), width = H * kernel.size(2);
  Value y = tape::matmul(inputs.x, tape::reshape(kernel, {kernel.size(0), width}));
  if (bias) y = y + tape::reshape(bias, {width});
  return tape::split_heads(y, H);
}

// [N,N] of buckets.
Value bucket_table(Index N, Index buckets) {
  std::vector<double> table(static_cast<std::size_t>(N * N));
  for (Index i = 0; i < N; ++i)
    for (Index j = 0; j < N; ++j) table[i * N + j] = static_cast<double>(bucket_of(i - j, buckets));
  return {{N, N}, std::move(table)};
}

// rel [H,nb] -> [H,N,N]
Value bias_of(const Value& rel, const Value& bucket) {
  const Index H = rel.size(0), nb = rel.size(1), N = bucket.size(0);
  std::vector<Index> from(static_cast<std::size_t>(H * N * N));
  for (Index h = 0; h < H; ++h)
    for (Index pair = 0; pair < N * N; ++pair)
      from[h * N * N + pair] = h * nb + static_cast<Index>(bucket.data()[pair]);
  return tape::rearranged(rel, {H, N, N}, from);
}

// Pairs of tokens that exist, and of a query that is not before its key if `causal` -> [B,1,N,N]
Value pairs_of(const Value& key_mask, Index B, Index N, bool causal) {
  std::vector<double> pairs(static_cast<std::size_t>(B * N * N));
  const auto exists = [&](Index b, Index i) { return !key_mask || key_mask.data()[b * N + i] != 0; };
  for (Index b = 0; b < B; ++b)
    for (Index i = 0; i < N; ++i)
      for (Index j = 0; j < N; ++j)
        pairs[(b * N + i) * N + j] = exists(b, i) && exists(b, j) && (!causal || j <= i) ? 1.0 : 0.0;
  return {{B, 1, N, N}, std::move(pairs)};
}

}  // namespace

Index bucket_of(Index distance, Index buckets) {
  const Index n = std::max<Index>(distance, 0), exact = buckets / 2;
  if (n < exact) return n;
  if (exact == 0) return 0;
  const auto half = static_cast<float>(exact);
  const float share = std::log(static_cast<float>(n) / half + std::numeric_limits<float>::epsilon()) /
                      std::log(static_cast<float>(buckets) / half);
  return std::min(buckets - 1, exact + static_cast<Index>(share * static_cast<float>(buckets - exact)));
}

void Hyla::check(const LayerPlace& place) const {
  if (qk_dim < 0 || v_dim < 0 || num_buckets < 0)
    throw InvalidArgument(fmt::format("[hyla] found qk_dim={}, v_dim={}, num_buckets={}: none of them is below 0",
                                      qk_dim, v_dim, num_buckets));
  if (place.X < 1 || place.H < 1) throw InvalidArgument(fmt::format("[hyla] width {}, {} heads", place.X, place.H));
  for (const auto& [what, width] : {std::pair("queries", qk_dim), {"values", v_dim}}) {
    const Index whole = width > 0 ? width : place.X;
    if (whole % place.H != 0)
      throw InvalidArgument(fmt::format("[hyla] {} of width {} cannot be cut into {} heads", what, whole, place.H));
  }
  if (!(rms_eps > 0) || std::isinf(rms_eps))
    throw InvalidArgument(fmt::format("[hyla] rms_eps must be a positive number, found {}", rms_eps));
  if (relative_bias && buckets(place) < 1)
    throw InvalidArgument("[hyla] relative_bias needs a number of buckets: the number of tokens is not known here",
                          "give num_buckets");
  if (!relative_bias && num_buckets > 0)
    throw InvalidArgument(fmt::format("[hyla] num_buckets={} without relative_bias", num_buckets),
                          "add relative_bias=true, or leave num_buckets out");
}

std::optional<primal::Attention> Hyla::declared() const {
  if (network != Network::plain || norm == Norm::rms_head || relative_bias) return std::nullopt;
  return parse(std::string(norm == Norm::softmax ? "softmax" : "dot") + (sees_past_only ? "+causal" : ""));
}

primal::Cost Hyla::cost(const LayerPlace& place, Index B, primal::Pass pass, DType dtype) const {
  const Index N = place.N, H = place.H, D = key_width(place), E = value_width(place);
  const bool backward = pass == primal::Pass::backward, mlp = network != Network::plain;
  const double n = static_cast<double>(N), element = static_cast<double>(size_of(dtype));
  const auto keys = static_cast<double>(H * D), values = static_cast<double>(H * E);
  primal::Cost cost;
  if (const auto value = declared()) {
    const Dims dims{1, H, N, N, D, E};
    cost = primal::attention_cost(*value, dims, primal::cheaper_form(*value, dims), pass, dtype);
  } else {
    const double pairs = sees_past_only ? 0.5 * n * (n + 1) : n * n;
    // Backward computes weights and hidden values again; the network has two products, each with two gradients.
    cost.multiply_adds = pairs * (backward ? 3 * keys + (mlp ? 5 : 2) * values : keys + (mlp ? 2 : 1) * values);
    cost.exps = norm == Norm::softmax ? pairs * static_cast<double>(H) : 0.0;
  }
  cost.multiply_adds += product_cost(N, place.X, 2 * H * (D + E), pass);
  cost.bytes = (backward ? 3 : 2) * element * n * static_cast<double>(place.X);
  // Queries, keys, values and what becomes of them, twice as much with their gradients; never the weights of pairs.
  // Scaled or normalised queries and keys are there beside the others.
  const double copies = (normalize_qk ? 2 : 0) + (declared() && norm == Norm::none ? 1 : 0);
  const double rows = 2 * (keys + values) + copies * keys + (backward ? static_cast<double>(H) : 0);
  cost.memory = element * n * (backward ? 2 : 1) * rows;
  const Index widest = place.X * H * std::max(D, E);  // a transposed weight
  cost = static_cast<double>(B) * cost;
  cost.memory += element * static_cast<double>(widest);
  const Index weights = 2 * (place.X + 1) * H * (D + E) + (relative_bias ? H * (N + buckets(place)) : 0);
  return with_weights(cost, weights, pass, dtype);
}

LayerOutputs Hyla::masked_reference(const LayerInputs& inputs, const tape::Value& mask) const {
  const Index B = inputs.x.size(0), N = inputs.x.size(1);
  Value q = heads_of(inputs, "query"), k = heads_of(inputs, "key");
  const Value v = heads_of(inputs, "value");
  if (normalize_qk) {
    q = tape::layer_norm(q, weight_of(inputs.weights, "query_ln.scale", name), {}, 1e-6);
    k = tape::layer_norm(k, weight_of(inputs.weights, "key_ln.scale", name), {}, 1e-6);
  }
  const Index H = q.size(1), D = q.size(3), E = v.size(3);
  LayerOutputs outputs;
  Value a = tape::matmul(q, tape::transpose(k, 2, 3)) * Value(1 / std::sqrt(static_cast<double>(D)));
  if (relative_bias) {
    const Value rel = weight_of(inputs.weights, "rel_embedding", name);
    outputs["bucket"] = bucket_table(N, rel.size(1));
    outputs["attention_bias"] = bias_of(rel, outputs["bucket"]);
    a = a + outputs["attention_bias"];
  }
  // A row without any key is uniform after the softmax.
  if (mask) a = tape::where(mask, a, norm == Norm::softmax ? std::numeric_limits<double>::lowest() : 0.0);
  if (norm == Norm::softmax) a = tape::softmax(a);
  if (norm == Norm::rms_head) a = a / tape::sqrt(tape::mean(tape::square(a), 1, true) + Value(rms_eps));
  outputs["attn"] = a;

  Value o;  // [B,N,H E]
  if (network == Network::plain) {
    o = tape::join_heads(tape::matmul(a, v));
  } else {
    const Value pairs = tape::reshape(a, {B, H, N, N, 1}) * tape::reshape(v, {B, H, 1, N, E});
    Value z = tape::sum(pairs, 1);  // [B,N,N,E]
    if (network == Network::mlp_relu) z = tape::relu(z);
    o = tape::reshape(tape::matmul(tape::transpose(a, 1, 2), z), {B, N, H * E});
  }
  outputs["core"] = o;
  const Value kernel = weight_of(inputs.weights, "out.kernel", name), bias = weight_or_none(inputs.weights, "out.bias");
  Value y = tape::matmul(o, tape::reshape(kernel, {H * E, kernel.size(2)}));
  outputs["y"] = bias ? y + bias : y;
  return outputs;
}

LayerOutputs Hyla::reference(const LayerInputs& inputs) const {
  const Index B = inputs.x.size(0), N = inputs.x.size(1);
  const bool all = !inputs.key_mask && !sees_past_only;
  LayerOutputs outputs = masked_reference(inputs, all ? Value() : pairs_of(inputs.key_mask, B, N, sees_past_only));
  if (inputs.key_mask) outputs["y"] = outputs["y"] * tape::reshape(inputs.key_mask, {B, N, 1});
  return outputs;
}

const Mechanism& mechanism() {
  static const Mechanism value = [] {
    Mechanism hyla = layer_mechanism<Hyla>("Attention as a hypernetwork", R"(@inproceedings{schug2025attention,
  title     = {Attention as a Hypernetwork},
  author    = {Schug, Simon and Kobayashi, Seijin and Akram, Yassir and Sacramento, Jo{\~a}o and Pascanu, Razvan},
  booktitle = {International Conference on Learning Representations},
  year      = {2025},
  note      = {arXiv:2406.05816}
})");
    hyla.golden.push_back({"hyla", check_golden_case});
    hyla.golden_layers.push_back({"hyla", read_golden_layer});
    return hyla;
  }();
  return value;
}

}  // namespace saddle::mechanisms::hyla
