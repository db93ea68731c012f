// RPC-Attention: symmetric softmax attention inside a few steps of principal attention pursuit, which takes gross
// outliers out of the keys; with it the plain symmetric layer and the two scaled attentions of the same paper.
#pragma once

#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms::rpc_attention {

enum class Variant { rpc, sym, scaled_s, scaled_alpha };
enum class Threshold { lambda_times_mu, lambda_over_mu };
enum class MuDim { model, head };
enum class MuOver { visible, sequence };

struct RpcAttention {
  static constexpr std::string_view name = "rpc_attention";
  static constexpr std::string_view help = "symmetric attention that clips outliers of the keys in num_iter passes";

  Variant variant = Variant::rpc;
  Index num_iter = 4;
  double lambda = 4;
  Index layer = 0;
  Threshold threshold = Threshold::lambda_times_mu;
  MuDim mu_dim = MuDim::model;
  MuOver mu_over = MuOver::visible;
  bool is_causal = false;

  static void options(auto& self, auto&& visit) {
    using enum primal::Written;
    visit({"variant", named, "principal attention pursuit, plain symmetric attention, or values scaled by S or alpha"},
          self.variant);
    visit({"num_iter", named, "passes of the pursuit"}, self.num_iter);
    visit({"lambda", named, "strength of the threshold"}, self.lambda);
    visit({"layer", named, "the one layer that runs the pursuit, from 0, the others are symmetric; -1: all"},
          self.layer);
    visit({"threshold", named, "of the sparse part: as in the published code, or as in the paper"}, self.threshold);
    visit({"mu_dim", named, "width in mu: of the model as in the published code, or of a head as in the paper"},
          self.mu_dim);
    visit({"mu_over", named, "tokens that mu averages: those a token sees, or all, which reads the future if causal"},
          self.mu_over);
    visit({"causal", named, "no token sees a later one"}, self.is_causal);
  }

  // Whether the layer of this number runs the pursuit.
  bool robust(Index index) const { return variant == Variant::rpc && (layer == -1 || layer == index); }
  bool scaled() const { return variant == Variant::scaled_s || variant == Variant::scaled_alpha; }

  bool causal() const { return is_causal && (variant != Variant::rpc || mu_over == MuOver::visible); }
  void check(const LayerPlace& place) const;
  primal::Cost cost(const LayerPlace& place, Index B, primal::Pass pass, DType dtype) const;
  // Weights: qkv [2X,X] (keys, values) or, scaled, [3X,X]; proj; s [H,n,n], n >= N, or [1]. Gives y, core [B,N,X], attn
  // [B,H,N,N] of the last pass; unless scaled mu [B,H,1,1], or [B,H,N,1] if it differs between tokens; of the pursuit
  // s_first, s_last, dual_last [B,H,N,D]. Rows of missing tokens are 0.
  LayerOutputs reference(const LayerInputs& inputs) const;

  bool operator==(const RpcAttention&) const = default;
};

// The least L1 norm of keys that mu divides by: keys that are all zero have no outliers, and mu stays finite.
inline constexpr double least_norm = 1e-12;

const Mechanism& mechanism();

// The written forms of all layers of a model. Throws InvalidArgument where some are to run the pursuit in one layer,
// but none of them stands there.
SADDLE_API void require_pursuit(const std::vector<std::string>& layers);

}  // namespace saddle::mechanisms::rpc_attention

template <>
inline constexpr std::array<std::string_view, 4> saddle::primal::enum_words<saddle::mechanisms::rpc_attention::Variant>{
    "rpc", "sym", "scaled_s", "scaled_alpha"};
template <>
inline constexpr std::array<std::string_view, 2>
    saddle::primal::enum_words<saddle::mechanisms::rpc_attention::Threshold>{"lambda_times_mu", "lambda_over_mu"};
template <>
inline constexpr std::array<std::string_view, 2> saddle::primal::enum_words<saddle::mechanisms::rpc_attention::MuDim>{
    "model", "head"};
template <>
inline constexpr std::array<std::string_view, 2> saddle::primal::enum_words<saddle::mechanisms::rpc_attention::MuOver>{
    "visible", "sequence"};
