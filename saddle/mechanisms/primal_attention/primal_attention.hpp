// Primal-Attention: scores of a kernel SVD of queries and keys, computed in the primal with small projections, and the
// objective of that SVD as a term of the loss.
#pragma once

#include <algorithm>

#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms::primal_attention {

enum class Form { dependent, causal };
enum class Reduction { per_sample, per_sample_mean, batch };
enum class Trace { no_x, with_x };

// Below this length a query or key is divided by it instead of by its own length.
inline constexpr double shortest = 1e-12;

struct SADDLE_API PrimalAttention {
  static constexpr std::string_view name = "primal_attention";
  static constexpr std::string_view help = "kernel SVD of queries and keys in the primal, O(N), with its own loss";

  Form form = Form::dependent;
  Index rank = 30;
  Index multiple = 10;
  double eta = 0.1;
  Reduction reduction = Reduction::per_sample;
  Trace trace = Trace::no_x;

  static void options(auto& self, auto&& visit) {
    visit({"form", primal::Written::named, "projections made of tokens of x, or fixed ones over running means"},
          self.form);
    visit({"rank", primal::Written::named, "singular directions s of a head"}, self.rank);
    visit({"multiple", primal::Written::named, "form dependent: rank times this many tokens are sampled"},
          self.multiple);
    visit({"eta", primal::Written::named, "weight of the KSVD objective in the loss; 0: left out"}, self.eta);
    visit({"reduction", primal::Written::named, "what is averaged before the objective is squared"}, self.reduction);
    visit({"trace", primal::Written::named, "trace of the projections themselves or after x is applied"}, self.trace);
  }

  bool causal() const { return form == Form::causal; }
  void check(const LayerPlace& place) const;
  primal::Cost cost(const LayerPlace& place, Index B, primal::Pass pass, DType dtype) const;
  // Weights: q, k, we, wr, lambda, concat, out. Gives y; escore, rscore [B,H,N,s]; var_e, var_r, ksvd ([B] or [1]) and
  // trace [1]; loss, unless eta is 0; phi_q, phi_k [B,H,N,D], sample [B,H,n,D] of the form dependent; spectrum [B,H,s]
  // as in spectrum.hpp.
  LayerOutputs reference(const LayerInputs& inputs) const;

  // Tokens n that the form dependent samples: rank * multiple, but no more than there are at most.
  Index samples(const LayerPlace& place) const {
    return place.N > 0 ? std::min(place.N, rank * multiple) : rank * multiple;
  }

  bool operator==(const PrimalAttention&) const = default;
};

const Mechanism& mechanism();

// The even grid floor((N-1) i / (n-1)), i < n, in whole numbers; token 0 for n = 1.
SADDLE_API std::vector<Index> sampled_tokens(Index N, Index n);

}  // namespace saddle::mechanisms::primal_attention

template <>
inline constexpr std::array<std::string_view, 2> saddle::primal::enum_words<saddle::mechanisms::primal_attention::Form>{
    "dependent", "causal"};
template <>
inline constexpr std::array<std::string_view, 3>
    saddle::primal::enum_words<saddle::mechanisms::primal_attention::Reduction>{"per_sample", "per_sample_mean",
                                                                                "batch"};
template <>
inline constexpr std::array<std::string_view, 2>
    saddle::primal::enum_words<saddle::mechanisms::primal_attention::Trace>{"no_x", "with_x"};
