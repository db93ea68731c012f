// Asking a trained model again, about a sample without some of its steps.
#pragma once

#include <functional>

#include "saddle/analysis/probe.hpp"
#include "saddle/train/trained.hpp"

namespace saddle::train {

// What analysis::Probe::ask is, for a batch of series, table rows or token sequences; empty for other inputs, whose
// tokens are not steps. A step that leaves is padding afterwards: value 0, masked. Removal::close moves the steps
// behind it up, Removal::pad leaves its place empty. The tensors of the batch are copied.
std::function<Matrix(Index sample, const std::vector<std::vector<Index>>& removed, analysis::Removal removal)> asker(
    const Trained& trained, const nn::Batch& inputs);

}  // namespace saddle::train
