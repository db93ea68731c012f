// What a trained model did on a few samples, as plain arrays: analyses need no torch to look at it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "saddle/base/tensor.hpp"
#include "saddle/base/view.hpp"

namespace saddle::analysis {

struct ProbedLayer {
  std::string attention;     // written form
  Array<double, 4> heads;    // [B,H,N,E], outputs of the heads before the output projection
  Array<double, 4> weights;  // [B,H,N,K]; empty for mechanisms without weights
  Array<double, 3> tokens;   // [B,N,X], behind the block
};

struct Probe {
  std::string split;           // "train" or "test"
  std::vector<Index> samples;  // [B]
  std::vector<Index> labels;   // [B]
  std::vector<Index> lengths;  // [B], tokens that exist
  Array<double, 3> tokens;     // [B,N,X], before the first block
  std::vector<ProbedLayer> layers;
};

// A model with what it did on the training and on the test split.
struct ProbedModel {
  std::string name;                       // of the data and the run, for titles
  std::map<std::string, Tensor> weights;  // parameters by their dotted names
  std::vector<std::string> classes;
  std::vector<Probe> probes;
};

}  // namespace saddle::analysis
