// Which samples train and which validate, and the scale of series, fitted on the former alone.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "saddle/data/dataset.hpp"

namespace saddle::data {

struct Split {
  std::vector<Index> train, validation;  // ascending
};

// Of every class the share, rounded, but at least one and never all; a class with one sample only trains. The draw
// depends on the seed, through the stream "split", and on nothing else.
Split stratified_split(const Dataset& data, double validation_share, std::uint64_t seed);

// At most `limit` of the samples, 0: all; of all classes alike, the same for every seed. Ascending.
std::vector<Index> limited(std::vector<Index> samples, Index limit, const std::function<Index(Index)>& class_of);

// Per channel mean and unbiased standard deviation over all steps of the given samples; x becomes
// (x - mean) / (deviation + 2.2e-16), or x - mean where all were equal. Of tables the numbers have their own statistics
// in every column, missing ones become 0, flags and categories stay. Only series are scaled.
struct Scaling {
  std::vector<double> mean, deviation;  // per channel, or per column and channel; empty: nothing is scaled
  Index steps = 0;                      // columns of a table, else 0
  bool flagged = false;                 // channel 1 of a table says which numbers are missing

  static Scaling fit(const Dataset& data, std::span<const Index> samples);
  // Throws InvalidArgument if it was fitted to another number of channels.
  void apply(Sample& sample, Index channels) const;
};

}  // namespace saddle::data
