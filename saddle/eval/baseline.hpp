// What little gets you on a data set: simple methods without attention, fitted on the training split and scored on the
// test split, so that a reader sees what an accuracy is worth.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "saddle/data/dataset.hpp"

namespace saddle::eval {

struct Baseline {
  std::string name;     // "rocket-1k"
  std::string what;     // one sentence without a full stop
  double accuracy = 0;  // share of the test samples with a label
  Index count = 0;      // of these samples
};

struct BaselineOptions {
  Index max_length = 0;    // longer samples are cut; 0: where the data set usually is, as in training
  std::uint64_t seed = 0;  // of random kernels and of samples held out
  Index limit = 0;         // fit on at most so many samples, those that data.limit leaves to a model; 0: on all
};

// All that fit the kind of data:
//   all          commonest: the label that most training samples have
//   series       ridge on the values; rocket-1k, unless it is a table, whose columns have no order
//   tokens       first token; histogram of the tokens (of pairs too)
//   images       ridge on pixels, nearest centroid, also where the pixels are tokens
// The same bits for any number of threads. Throws NotSupported for events, InvalidArgument if there are less than two
// classes or no labelled test samples.
std::vector<Baseline> baselines(const data::Task& task, const BaselineOptions& options = {});

}  // namespace saddle::eval
