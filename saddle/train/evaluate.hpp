// What a model says about samples, all of them, each once.
#pragma once

#include <vector>

#include "saddle/train/batch.hpp"
#include "saddle/train/group.hpp"
#include "saddle/train/trained.hpp"

namespace saddle::train {

struct Evaluation {
  Index count = 0;
  double loss = 0, accuracy = 0;  // of samples whose label is known
  std::vector<Index> samples, labels, predicted;
  std::vector<double> probabilities;  // [count, classes]
  double seconds = 0;
};

// The model is put into evaluation mode for the time. Workers share the samples and all get the whole answer. Throws
// Error if a sample was not seen exactly once.
Evaluation evaluate(const Trained& trained, data::DatasetPtr data, const std::vector<Index>& samples, Index batch,
                    Group& group, bool bfloat16);

// 0 .. n - 1
std::vector<Index> all_of(const data::Dataset& data);

}  // namespace saddle::train
