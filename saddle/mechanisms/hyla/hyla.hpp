// HYLA: attention as a hypernetwork. The weights of all heads for a pair of tokens are the code of a small value
// network, normalised over the heads.
#pragma once

#include <optional>

#include "saddle/kernels/hyla/hyla.hpp"
#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms::hyla {

using kernels::hyla::Network;
using kernels::hyla::Norm;

struct SADDLE_API Hyla {
  static constexpr std::string_view name = "hyla";
  static constexpr std::string_view help = "weights normalised over the heads generate a value network for each pair";

  Norm norm = Norm::rms_head;
  Network network = Network::mlp_relu;
  Index qk_dim = 0, v_dim = 0;
  bool relative_bias = false;
  Index num_buckets = 0;
  bool normalize_qk = false;
  bool sees_past_only = false;
  double rms_eps = 1e-6;

  static void options(auto& self, auto&& visit) {
    visit({"attention_norm", primal::Written::named, "what normalises the scores"}, self.norm);
    visit({"target_network", primal::Written::named, "what the weights make of the values"}, self.network);
    visit({"qk_dim", primal::Written::named, "width of the queries of all heads, 0: the model's"}, self.qk_dim);
    visit({"v_dim", primal::Written::named, "width of the values of all heads, 0: the model's"}, self.v_dim);
    visit({"relative_bias", primal::Written::named, "adds a learnt bias for each bucket of distances"},
          self.relative_bias);
    visit({"num_buckets", primal::Written::named, "of distances, 0: as many as the model has tokens"},
          self.num_buckets);
    visit({"normalize_qk", primal::Written::named, "LayerNorm of queries and keys in every head"}, self.normalize_qk);
    visit({"causal", primal::Written::named, "no token sees a later one"}, self.sees_past_only);
    visit({"rms_eps", primal::Written::named, "added to the mean square over the heads"}, self.rms_eps);
  }

  // Widths of one head, and the number of buckets.
  Index key_width(const LayerPlace& place) const { return (qk_dim > 0 ? qk_dim : place.X) / place.H; }
  Index value_width(const LayerPlace& place) const { return (v_dim > 0 ? v_dim : place.X) / place.H; }
  Index buckets(const LayerPlace& place) const { return num_buckets > 0 ? num_buckets : place.N; }

  // The declared attention that this is between its projections, if it is one. Its queries are divided by sqrt(D) first
  // where there is no softmax.
  std::optional<primal::Attention> declared() const;

  bool causal() const { return sees_past_only; }
  void check(const LayerPlace& place) const;
  primal::Cost cost(const LayerPlace& place, Index B, primal::Pass pass, DType dtype) const;
  // Weights: query, key, value and out, each with kernel and bias; rel_embedding; query_ln.scale, key_ln.scale. Outputs
  // of tokens that do not exist are 0.
  LayerOutputs reference(const LayerInputs& inputs) const;
  // The same with any mask [B,1,N,N], or none, 1 where a query sees a key, and nothing set to 0 behind it. Gives y,
  // attn [B,H,N,N], core [B,N,H E] and, with relative_bias, bucket [N,N], attention_bias [H,N,N].
  LayerOutputs masked_reference(const LayerInputs& inputs, const tape::Value& mask) const;

  bool operator==(const Hyla&) const = default;
};

const Mechanism& mechanism();

// The bucket of max(i - j, 0) among `buckets`: the first half exact, then logarithmic up to a distance of `buckets`, in
// single precision as published.
SADDLE_API Index bucket_of(Index distance, Index buckets);

// Golden cases of the layer and of the two tasks of the paper.
GoldenReport check_golden_case(const TensorFile& golden, DType dtype);
std::optional<LayerCase> read_golden_layer(const TensorFile& golden);

}  // namespace saddle::mechanisms::hyla

template <>
inline constexpr std::array<std::string_view, 3> saddle::primal::enum_words<saddle::kernels::hyla::Norm>{
    "rms_head", "softmax", "none"};
template <>
inline constexpr std::array<std::string_view, 3> saddle::primal::enum_words<saddle::kernels::hyla::Network>{
    "mlp_relu", "default", "mlp_linear"};
