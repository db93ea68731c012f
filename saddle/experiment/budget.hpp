// How much of an experiment fits into the time there is.
#pragma once

#include "saddle/experiment/results.hpp"

namespace saddle::experiment {

// What one run takes, in seconds: the median of records of the same cell with any seed; else of the same data in the
// same part; else of the dearest of the part; else five minutes. Scaled to the epochs that are asked for.
double estimated_seconds(const Results& known, const Part& part, const std::string& protocol, const std::string& data,
                         const std::string& attention);

// A short run that tells what whole ones of a part take on a data set.
struct Probe {
  Part part;       // of one data set, attention, protocol and seed, and a hundredth of the epochs or steps
  std::string of;  // the name of the part
  double times;    // a whole run takes so many of it
};
// One for every data set of a part that nothing is known of.
std::vector<Probe> probes(const Experiment& experiment, const Results& known);

// Fewer seeds first, then fewer epochs.
struct Extent {
  Index seeds = 0;     // at most, of every part
  double epochs = 1;   // share of the epochs or steps
  double seconds = 0;  // that all runs take, as far as is known
  double whole = 0;    // that the whole experiment would take
};
Extent extent_within(const Experiment& experiment, const Results& known, double seconds, Index jobs);

// The experiment with at most so many seeds, and epochs or steps reduced to their share, one at least. Parts that are
// reduced get a name of their own, "d64-e12": their runs are other runs.
Experiment reduced(Experiment experiment, const Extent& extent);

}  // namespace saddle::experiment
