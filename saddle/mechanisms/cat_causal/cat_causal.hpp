// Causal CAT: the weight of a key depends on how far it lies back, by the score of the token at that distance from the
// first one.
#pragma once

#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms::cat_causal {

struct CatCausal {
  static constexpr std::string_view name = "cat_causal";
  static constexpr std::string_view help = "CAT for causal models: softmax over the distances seen so far, O(N log N)";

  static void options(auto&, auto&&) {}

  bool causal() const { return true; }
  void check(const LayerPlace& place) const;
  primal::Cost cost(const LayerPlace& place, Index B, primal::Pass pass, DType dtype) const;
  // Weights: a, v, out. Gives y and core [B,N,X].
  LayerOutputs reference(const LayerInputs& inputs) const;

  bool operator==(const CatCausal&) const = default;
};

const Mechanism& mechanism();

}  // namespace saddle::mechanisms::cat_causal
