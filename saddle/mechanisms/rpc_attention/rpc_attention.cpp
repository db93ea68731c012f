#include "saddle/mechanisms/rpc_attention/rpc_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "saddle/mechanisms/golden_tape.hpp"
#include "saddle/mechanisms/layer_internal.hpp"
#include "saddle/mechanisms/layer_weights_internal.hpp"

namespace saddle::mechanisms::rpc_attention {

namespace {

using tape::Value;

Value weight(const LayerInputs& inputs, const std::string& name, const Shape& shape) {
  const Value weight = weight_of(inputs.weights, name, RpcAttention::name);
  if (weight.shape() != shape)
    throw InvalidArgument(fmt::format("[rpc_attention] {} has shape {}, expected {}", name,
                                      saddle::to_string(weight.shape()), saddle::to_string(shape)));
  return weight;
}

Value projected(const LayerInputs& inputs, const Value& x, const std::string& name, Index width) {
  const bool bias = inputs.weights.contains(name + ".bias");
  return tape::linear(x, weight(inputs, name + ".weight", {width, x.size(-1)}),
                      bias ? weight(inputs, name + ".bias", {width}) : Value());
}

// [B,1,N,N], 1 where a query sees a key.
Value visible_keys(const Value& keep, bool causal) {
  const Index B = keep.size(0), N = keep.size(1);
  std::vector<double> mask(static_cast<std::size_t>(B * N * N));
  for (Index b = 0; b < B; ++b)
    for (Index i = 0; i < N; ++i)
      for (Index j = 0; j < N; ++j) mask[(b * N + i) * N + j] = causal && j > i ? 0.0 : keep.data()[b * N + j];
  return {{B, 1, N, N}, std::move(mask)};
}

// q, k [B,H,N,D] -> [B,H,N,N]
Value softmax_weights(const Value& q, const Value& k, const Value& visible) {
  const Value scores = tape::matmul(q, tape::transpose(k, 2, 3)) * Value(1 / std::sqrt(static_cast<double>(q.size(3))));
  return tape::softmax(tape::where(visible, scores, -std::numeric_limits<double>::infinity()));
}

// sign(s) max(|s| - t, 0); which numbers are above the threshold is held fixed.
Value shrink(const Value& s, const Value& t) {
  const Value above = tape::detach(tape::abs(s) - t);
  std::vector<double> sign(above.data().size());
  for (std::size_t i = 0; i < sign.size(); ++i) sign[i] = above.data()[i] > 0 ? std::copysign(1.0, s.data()[i]) : 0.0;
  const Value active(s.shape(), std::move(sign));
  return active * active * s - active * t;
}

// keys [B,H,N,D], keep [B,1,N,1] -> [B,H,1,1], or [B,H,N,1] over each token and those before it.
Value mu_of(const Value& keys, const Value& keep, Index width, bool running) {
  const Value norms = tape::sum(tape::abs(keys) * keep, 3, true);
  const auto total = [&](const Value& x) { return running ? tape::cumulative_sum(x, 2) : tape::sum(x, 2, true); };
  return tape::at_least(total(keep), 1) * Value(static_cast<double>(width) / 4) /
         tape::at_least(total(norms), least_norm);
}

std::optional<LayerCase> read_golden_case(const TensorFile& golden) {
  const GoldenMetadata metadata(golden);
  const std::string mask = metadata.text("mask", "none");
  const bool both = mask == "causal+padding", causal = both || mask == "causal", padded = both || mask == "padding";
  if (!causal && !padded && mask != "none")
    throw DataError("", 0, 0, "metadata 'mask' must be none, causal, padding or causal+padding, found '" + mask + "'");
  const primal::Term term{"rpc_attention",
                          {{"variant", metadata.text("variant", "rpc")},
                           {"num_iter", metadata.text("num_iter", "4")},
                           {"lambda", metadata.text("lambd", "4")},
                           {"layer", metadata.text("layer", "-1")},
                           {"threshold", metadata.text("threshold", "lambda_times_mu")},
                           {"mu_dim", metadata.text("mu_dim", "model")},
                           {"mu_over", causal ? "sequence" : "visible"},
                           {"causal", causal ? "true" : "false"}},
                          0};
  LayerCase read = layer_case(golden, layer_of(mechanism(), term), "num_heads");
  LayerInputs& given = read.inputs;
  read.tolerance = 1e-8;
  // The variant of a case says what this one layer does, so one that is rpc stands where the pursuit runs.
  const Index robust = read.layer->part<RpcAttention>().layer;
  given.place.index = robust >= 0 ? robust : metadata.integer("layer_index", 0);
  given.place.bias = read.recorded.contains("param.qkv.bias");
  if (padded) golden_tensor(golden, "in.key_mask");
  if (read.recorded.contains("in.key_mask")) given.key_mask = read.recorded.at("in.key_mask");
  if (const auto s = given.weights.find("s"); s != given.weights.end() && s->second.rank() == 3)
    given.place.N = s->second.size(1);
  return read;
}

}  // namespace

void RpcAttention::check(const LayerPlace& place) const {
  check_heads(place, name);
  if (num_iter < 1)
    throw InvalidArgument(fmt::format("[rpc_attention] num_iter must be at least 1, found {}", num_iter),
                          "variant=sym is the layer without the pursuit");
  if (!std::isfinite(lambda) || lambda < 0)
    throw InvalidArgument(fmt::format("[rpc_attention] lambda must not be negative, found {}", lambda));
  if (layer < -1)
    throw InvalidArgument(
        fmt::format("[rpc_attention] layer must be the number of a layer, from 0, or -1, found {}", layer));
  if (variant == Variant::scaled_s && place.N < 1)
    throw InvalidArgument(
        "[rpc_attention] variant scaled_s learns a matrix over tokens, but the number of tokens is "
        "not known here",
        "use variant=scaled_alpha, or a model with a fixed length");
}

primal::Cost RpcAttention::cost(const LayerPlace& place, Index B, primal::Pass pass, DType dtype) const {
  const Index N = place.N, X = place.X, H = place.H;
  primal::Attention softmax;
  if (is_causal) softmax.keys.push_back(primal::Causal{});
  const Index passes = robust(place.index) ? num_iter : variant == Variant::scaled_alpha ? 2 : 1;
  const Index projections = scaled() ? 4 * X : 3 * X;
  primal::Cost cost = static_cast<double>(passes) *
                      primal::attention_cost(softmax, {1, H, N, N, X / H, X / H}, primal::Form::dual, pass, dtype);
  cost.multiply_adds += product_cost(N, X, projections, pass);
  if (variant == Variant::scaled_s) cost.multiply_adds += product_cost(N, N, X, pass);
  // Attention weights are never kept. Forward a pass has what it clips, its keys and its result; for the way back every
  // pass keeps them, with two numbers of a row of weights.
  const bool backward = pass == primal::Pass::backward;
  const Index forward_rows = (robust(place.index) ? std::min<Index>(8, 3 * num_iter) : scaled() ? 5 : 3) * X;
  const Index kept_rows = (scaled() ? 6 : 4) * X + passes * (4 * X + 2 * H);
  cost.memory = static_cast<double>(size_of(dtype)) * static_cast<double>(N * (backward ? kept_rows : forward_rows));
  // The matrix S of a head is a weight; its products have two copies of it and its gradient.
  const Index table = variant == Variant::scaled_s ? 3 * H * N * N : 0;
  return with_weights(static_cast<double>(B) * cost, (X + 1) * projections + table, pass, dtype);
}

LayerOutputs RpcAttention::reference(const LayerInputs& inputs) const {
  const Index B = inputs.x.size(0), N = inputs.x.size(1), X = inputs.x.size(2), H = inputs.place.H;
  const Value keep = inputs.key_mask ? inputs.key_mask : tape::full({B, N}, 1);
  const Value rows = tape::reshape(keep, {B, 1, N, 1}), visible = visible_keys(keep, is_causal);
  const Value qkv = projected(inputs, inputs.x, "qkv", scaled() ? 3 * X : 2 * X);
  const auto part = [&](Index number) { return tape::split_heads(tape::slice(qkv, 2, number * X, X), H); };

  LayerOutputs outputs;
  Value P, L;  // weights and heads of the last pass
  if (scaled()) {
    const Value k = part(1);
    Value v = part(2) * rows;
    if (variant == Variant::scaled_alpha) {
      v = v - weight(inputs, "s", {1}) * tape::matmul(softmax_weights(k, k, visible), v);
    } else {
      const Index longest = std::max(N, inputs.place.N);
      const Value S = tape::slice(tape::slice(weight(inputs, "s", {H, longest, longest}), 1, 0, N), 2, 0, N);
      v = v - tape::matmul(tape::where(visible, S + tape::zeros({B, 1, 1, 1}), 0), v);
    }
    P = softmax_weights(part(0), k, visible);
    L = tape::matmul(P, v);
  } else {
    const Value K = part(0), V = part(1);
    const Value mu = mu_of(K, rows, mu_dim == MuDim::model ? X : X / H, is_causal && mu_over == MuOver::visible);
    outputs.emplace("mu", mu);
    if (robust(inputs.place.index)) {
      const Value t = threshold == Threshold::lambda_times_mu ? Value(lambda) * mu : Value(lambda) / mu;
      L = tape::zeros(K.shape());
      Value Y = L, S;
      for (Index i = 0; i < num_iter; ++i) {
        S = shrink(K - L + Y / mu, t);
        if (i == 0) outputs.emplace("s_first", S * rows);
        const Value K2 = K - S - Y / mu;
        P = softmax_weights(K2, K2, visible);
        L = tape::matmul(P, V);
        Y = Y + mu * (K - L - S);
      }
      outputs.emplace("s_last", S * rows);
      outputs.emplace("dual_last", Y * rows);
    } else {
      P = softmax_weights(K, K, visible);
      L = tape::matmul(P, V);
    }
  }
  const Value core = tape::join_heads(L * rows);
  outputs.emplace("attn", P * rows);
  outputs.emplace("core", core);
  outputs.emplace("y", projected(inputs, core, "proj", X) * tape::reshape(keep, {B, N, 1}));
  return outputs;
}

void require_pursuit(const std::vector<std::string>& layers) {
  std::string idle;
  Index pursues = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerPtr layer = find_layer(layers[i]);
    if (!layer || layer->name() != RpcAttention::name) continue;
    const RpcAttention& rpc = layer->part<RpcAttention>();
    if (rpc.robust(static_cast<Index>(i))) return;
    if (rpc.variant != Variant::rpc || rpc.layer < 0) continue;
    idle = layers[i];
    pursues = rpc.layer;
  }
  if (idle.empty()) return;
  throw InvalidArgument(
      fmt::format(
          "[rpc_attention] '{}' runs its pursuit in layer {}, but it does not stand there: none of the {} layers "
          "of this model, counted from 0, would run it",
          idle, pursues, layers.size()),
      "layer=-1 runs it wherever it stands; variant=sym is the layer without it");
}

const Mechanism& mechanism() {
  static const Mechanism value = [] {
    Mechanism rpc = layer_mechanism<RpcAttention>("RPC-Attention", R"(@inproceedings{teo2024unveiling,
  title     = {Unveiling the Hidden Structure of Self-Attention via Kernel Principal Component Analysis},
  author    = {Teo, Rachel S.Y. and Nguyen, Tan M.},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2024},
  note      = {arXiv:2406.13762}
})");
    rpc.tier = Tier::composed;
    rpc.answer_for({"rpc-attention", read_golden_case});
    return rpc;
  }();
  return value;
}

}  // namespace saddle::mechanisms::rpc_attention
