// Inter-modality flow: how much attention crosses between two groups of tokens, and masks that hide groups of tokens
// which attend to each other.
#pragma once

#include "saddle/analysis/registry.hpp"
#include "saddle/base/tape.hpp"

namespace saddle::analysis::imf {

// What a token is.
inline constexpr double special = 0, language = 1, vision = 2;

// What the flow of a layer is made of: its attention, half of it and half of the skip connection, or the product of
// these halves up to the layer.
enum class Flow { layer, residual, rollout };

// attention [B,L,H,S,S] with rows of queries, kind [B,S] -> [B,L,3]: the share of the flow that crosses, of what
// language reads that is vision, of what vision reads that is language. 0 where nothing flows. Special tokens do not
// count. Throws InvalidArgument for shapes that do not fit.
SADDLE_API tape::Value flow(const tape::Value& attention, const tape::Value& kind, Flow kind_of_flow);
// The same for every head by itself, [B,L,H,3].
SADDLE_API tape::Value flow_of_heads(const tape::Value& attention, const tape::Value& kind);
// The share that uniform attention would have, [B].
SADDLE_API tape::Value chance(const tape::Value& kind);

// attention [B,H,V,V], picked [B,P] -> [B,V], 1 for the picked tokens and the `top` others that each attends to most,
// ties to the smaller index.
SADDLE_API tape::Value feature_mask(const tape::Value& attention, const tape::Value& picked, Index top);
// Mean over masked tokens of the mean squared difference over features; no gradient for the features. 0 without any.
SADDLE_API tape::Value feature_loss(const tape::Value& prediction, const tape::Value& feature, const tape::Value& mask);

SADDLE_API mechanisms::GoldenReport check(const TensorFile& golden, DType dtype);

SADDLE_API const Analysis& analysis();

}  // namespace saddle::analysis::imf
