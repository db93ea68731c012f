// What layers share: weights by their names, linear maps, the width of a head, and what weights cost.
#pragma once

#include <fmt/format.h>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/layer.hpp"

namespace saddle::mechanisms {

using LayerWeights = std::map<std::string, tape::Value>;

// Undefined if there is none.
inline tape::Value weight_or_none(const LayerWeights& weights, const std::string& name) {
  const auto found = weights.find(name);
  return found == weights.end() ? tape::Value() : found->second;
}

// One that `mechanism` cannot do without.
inline tape::Value weight_of(const LayerWeights& weights, const std::string& name, std::string_view mechanism) {
  const tape::Value weight = weight_or_none(weights, name);
  if (!weight) throw InvalidArgument(fmt::format("[{}] the weight '{}' is missing", mechanism, name));
  return weight;
}

// x W' + b, with a bias if there is one.
inline tape::Value projected(const tape::Value& x, const LayerWeights& weights, const std::string& name,
                             std::string_view mechanism) {
  return tape::linear(x, weight_of(weights, name + ".weight", mechanism), weight_or_none(weights, name + ".bias"));
}

inline void check_heads(const LayerPlace& place, std::string_view mechanism) {
  if (place.X < 1 || place.H < 1 || place.X % place.H != 0)
    throw InvalidArgument(fmt::format("[{}] width {} cannot be cut into {} heads", mechanism, place.X, place.H));
}

// A cost with the gradients of so many weights in memory, in the backward pass.
inline primal::Cost with_weights(primal::Cost cost, Index weights, primal::Pass pass, DType dtype) {
  if (pass == primal::Pass::backward) cost.memory += static_cast<double>(size_of(dtype)) * static_cast<double>(weights);
  return cost;
}

}  // namespace saddle::mechanisms
