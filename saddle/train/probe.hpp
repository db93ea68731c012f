// What a trained model does on samples, for analyses.
#pragma once

#include "saddle/analysis/probe.hpp"
#include "saddle/train/trained.hpp"

namespace saddle::train {

// All samples in one batch, in evaluation mode: keep them few. Parts of layers take about as much memory as their heads
// do, several times.
analysis::Probe probe(const Trained& trained, data::DatasetPtr data, const std::vector<Index>& samples,
                      const std::string& split, bool with_parts = true);

// The parameters as plain tensors in double, by their dotted names.
std::map<std::string, saddle::Tensor> plain_weights(const nn::Model& model);

}  // namespace saddle::train
