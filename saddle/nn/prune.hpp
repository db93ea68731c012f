// Models with fewer heads: the heads that go take their parameters with them.
#pragma once

#include <memory>
#include <vector>

#include "saddle/nn/models/model.hpp"

namespace saddle::nn {

// The heads that each layer keeps, by their number, in ascending order and at least one.
using KeptHeads = std::vector<std::vector<int64_t>>;

// All heads of every layer. Throws NotSupported for models whose layers do not stand in `blocks`.
SADDLE_TORCH_API KeptHeads all_heads(const Model& model);
// Whether a layer can lose heads: it has a declared attention, with projections around it, and more than one head.
SADDLE_TORCH_API bool can_lose_heads(const Model& model, std::size_t layer);

// A model of the same kind without the other heads: their rows of the projections to queries, keys and values, their
// columns of the output projection and their parameters of the attention are gone. It computes what the model computes
// when the outputs of these heads are 0 before the output projection. Its options say how many heads each layer has,
// and name the pooling factors that are left. Throws InvalidArgument for heads that are none and for a layer without
// any, NotSupported where heads cannot be taken out.
SADDLE_TORCH_API std::shared_ptr<Model> with_heads(const Model& model, const KeptHeads& kept);

// Multiplies the output projection of every layer by sqrt(heads before / heads now), so that a sum of independent heads
// keeps its size.
SADDLE_TORCH_API void rescale_layers(Model& pruned, const Model& before);

// The norm of each head's weights in the four projections, by layer and head; none for layers that cannot lose heads.
SADDLE_TORCH_API std::vector<std::vector<double>> head_norms(const Model& model);

}  // namespace saddle::nn
