// What attention does on single samples, and how far apart heads are.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "saddle/nn/taps.hpp"
#include "saddle/train/evaluate.hpp"

namespace saddle::train {

// Per attention layer, over the samples.
std::vector<nn::HeadDistance> head_distances(const Trained& trained, data::DatasetPtr data,
                                             const std::vector<Index>& samples);

// inspect.json: inputs, predictions and attention maps of the samples. Maps are averaged down to at most 64 x 64.
nlohmann::ordered_json inspect_json(const Trained& trained, data::DatasetPtr data, const std::vector<Index>& samples,
                                    const Evaluation& evaluation);

// Samples worth looking at: of every class the first that was right, then the first that was wrong, at most `count`.
std::vector<Index> worth_inspecting(const Evaluation& evaluation, Index count);

}  // namespace saddle::train
