// The reference of spiking self-attention.
#include <limits>

#include "saddle/mechanisms/layer_weights_internal.hpp"
#include "saddle/mechanisms/spiking/shiftmax.hpp"
#include "saddle/mechanisms/spiking/spiking.hpp"

namespace saddle::mechanisms::spiking {

namespace {

using tape::Value;
Value needed(const LayerWeights& weights, const std::string& name) { return weight_of(weights, name, Spiking::name); }

// Over all axes but the last.
Value batch_norm(const Value& x, const std::string& name, const LayerWeights& weights, double eps) {
  const Value rows = tape::reshape(x, {-1, x.size(-1)});
  Value mean = weight_or_none(weights, name + ".running_mean"),
        variance = weight_or_none(weights, name + ".running_var");
  if (!mean) mean = tape::mean(rows, 0, true);
  const Value centred = rows - mean;
  if (!variance) variance = tape::mean(tape::square(centred), 0, true);
  const Value y =
      centred / tape::sqrt(variance + Value(eps)) * needed(weights, name + ".weight") + needed(weights, name + ".bias");
  return tape::reshape(y, x.shape());
}

// BN(x W^T + b); kernels of 1x1 convolutions have trailing extents of 1.
Value projected(const Value& x, const std::string& name, const LayerWeights& weights, double eps) {
  const Value weight = needed(weights, name + ".weight");
  const Value map = tape::reshape(weight, {weight.size(0), weight.size(1)});
  return batch_norm(tape::linear(x, map, weight_or_none(weights, name + ".bias")), name + "_bn", weights, eps);
}

// [T,B,N,C] -> [T B,H,N,D] and back.
Value heads_of(const Value& x, Index H) { return tape::split_heads(tape::reshape(x, {-1, x.size(2), x.size(3)}), H); }
Value tokens_of(const Value& heads, const Shape& shape) { return tape::reshape(tape::join_heads(heads), shape); }

}  // namespace

LayerOutputs attend(const Plan& plan, const Value& given, const Value& key_mask, Index H, const LayerWeights& weights) {
  const Index T = given.size(0), B = given.size(1), N = given.size(2), C = given.size(3), D = C / H;
  const Shape tokens{T, B, N, C};
  const auto spikes_of = [](const Value& x, const Neuron& neuron) { return fire(x, neuron).s; };
  LayerOutputs out;

  Value x = given;
  if (plan.input_spikes()) {
    x = spikes_of(x, plan.neuron);
    out[plan.variant == Variant::sdsa ? "spikes.shortcut_lif" : "spikes.proj_lif"] = x;
  }
  const Value q = spikes_of(projected(x, "q", weights, plan.eps), plan.neuron);
  const Value k = spikes_of(projected(x, "k", weights, plan.eps), plan.neuron);
  Value v;
  if (plan.has_values()) v = projected(x, "v", weights, plan.eps);
  if (plan.has_values() && plan.value_spikes()) v = spikes_of(v, plan.neuron);
  const Value keys = key_mask ? k * tape::reshape(key_mask, {1, B, N, 1}) : k;

  Value a;  // what goes to the output projection
  if (plan.variant == Variant::qkformer_token) {
    const Value count = tape::sum(tape::reshape(heads_of(q, H), {T, B, H, N, D}), 4, true);
    const Value gate = spikes_of(count, plan.attention);
    out["spikes.attn_lif"] = gate;
    a = tokens_of(tape::reshape(gate, {T * B, H, N, 1}) * heads_of(k, H), tokens);
  } else if (plan.variant == Variant::sdsa) {
    const Value count = tape::reshape(tape::sum(keys * v, 2), {T, B, H, 1, D});
    const Value gate = spikes_of(count, plan.attention);
    out["spikes.talking_heads_lif"] = gate;
    a = tokens_of(tape::reshape(gate, {T * B, H, 1, D}) * heads_of(q, H), tokens);
  } else {
    Value weight = tape::matmul(heads_of(q, H), tape::transpose(heads_of(plan.linear() ? keys : k, H), 2, 3));
    out["score"] = tape::reshape(weight, {T, B, H, N, N});
    if (plan.linear()) {
      weight = weight * Value(plan.scale);
    } else {
      if (key_mask) {
        const Value mask = tape::reshape(key_mask, {1, B, 1, 1, N});
        weight = tape::where(mask, out["score"], -std::numeric_limits<double>::infinity());
        weight = tape::reshape(weight, {T * B, H, N, N});
      }
      weight = plan.constraint == Constraint::softmax ? tape::softmax(weight) : shiftmax(weight).weight;
    }
    out["weight"] = tape::reshape(weight, {T, B, H, N, N});
    a = spikes_of(tokens_of(tape::matmul(weight, heads_of(v, H)), tokens), plan.attention);
    out["spikes.attn_lif"] = a;
  }
  Value y = projected(a, "proj", weights, plan.eps);
  if (plan.output_spikes()) {
    y = spikes_of(y, plan.neuron);
    out["spikes.proj_lif"] = y;
  }
  if (key_mask) y = y * tape::reshape(key_mask, {1, B, N, 1});
  out["y"] = y;
  out["spikes.q_lif"] = q;
  out["spikes.k_lif"] = k;
  if (plan.has_values()) out["spikes.v_lif"] = v;
  return out;
}

}  // namespace saddle::mechanisms::spiking
