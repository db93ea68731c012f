// From sequences of events to samples with a class: of what type is the next event, at the time it happens?
#pragma once

#include "saddle/data/dataset.hpp"

namespace saddle::data {

// One sample for every event of the sequences `which` but their first: the events before it, `window` of them at most,
// each with the time that is left to it, and its type as the label. Types and classes are those of `like`, the training
// split's description, if given: class i is type i + 1. Throws DataError for a type that it does not have.
DatasetPtr next_events(DatasetPtr sequences, std::vector<Index> which, Index window, const Description* like = nullptr);

struct NextEventOptions {
  Index window = 100;     // as in the published experiments
  double validation = 0;  // share of the training sequences that are held out, each as a whole
  std::uint64_t seed = 0;
};

// The task whose splits are sequences of events, turned into one of next events.
Task next_event_task(const Task& sequences, const NextEventOptions& options);

}  // namespace saddle::data
