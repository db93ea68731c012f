// The analysis as the command line asks for it.
#pragma once

#include "saddle/analysis/causal_discovery/model_explanations_internal.hpp"
#include "saddle/analysis/registry.hpp"

namespace saddle::analysis::causal_discovery {

Result on_file(const std::string& file, analysis::Options& options);
Result on_model(const ProbedModel& model, analysis::Options& options);
// A matrix of attention or correlations, or else what a model did.
Result on_tensors(const TensorFile& file, const std::string& name, analysis::Options& options);

// Which attention of a model is read.
struct Chosen {
  const Probe* probe = nullptr;
  const ProbedLayer* layer = nullptr;
  Index at = 0;                     // of the layer
  std::vector<Index> samples = {};  // numbers in the probe
  std::vector<Index> heads = {};
  Array<double, 4> weights = {};  // of the layer between tokens [B,H,N,N]

  // Of a sample of the probe in its data.
  Index number(Index sample) const {
    const auto place = static_cast<std::size_t>(sample);
    return place < probe->samples.size() ? probe->samples[place] : sample;
  }
  Index length(Index sample) const { return probe->lengths[static_cast<std::size_t>(sample)]; }
  std::vector<std::string> names(Index sample) const {
    if (probe->names.empty()) return {};
    const auto& all = probe->names[static_cast<std::size_t>(sample)];
    return {all.begin(), all.begin() + length(sample)};
  }
  // Sample and head of the weights, as far as the sample has tokens.
  Matrix attention(Index sample, Index head) const {
    Matrix own({length(sample), length(sample)});
    for (Index i = 0; i < length(sample); ++i)
      for (Index j = 0; j < length(sample); ++j) own(i, j) = weights(sample, head, i, j);
    return own;
  }
};

// Explanations of the predictions for the samples, by the graph of each head and by other searches.
Result explain_model(const ProbedModel& model, Request request, const ModelExplainOptions& own, const Chosen& chosen);

}  // namespace saddle::analysis::causal_discovery
