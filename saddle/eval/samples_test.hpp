// Data sets for tests, made in memory.
#pragma once

#include "saddle/base/random.hpp"
#include "saddle/data/dataset.hpp"
#include "saddle/eval/features.hpp"

namespace saddle::eval {

class MemoryData : public data::Dataset {
 public:
  MemoryData(data::Description description, std::vector<data::Sample> samples)
      : description_(std::move(description)), samples_(std::move(samples)) {}

  const data::Description& description() const override { return description_; }
  Index size() const override { return static_cast<Index>(samples_.size()); }
  Index label(Index i) const override { return at(i).label; }
  Index length(Index i) const override { return at(i).length; }
  void read(Index i, data::Sample& into) const override { into = at(i); }

 private:
  const data::Sample& at(Index i) const { return samples_[static_cast<std::size_t>(i)]; }

  data::Description description_;
  std::vector<data::Sample> samples_;
};

inline data::Sample series_sample(std::vector<float> values, Index channels, Index label) {
  data::Sample sample;
  sample.length = static_cast<Index>(values.size()) / channels;
  sample.values = std::move(values);
  sample.label = label;
  return sample;
}

inline data::Sample token_sample(std::vector<std::int32_t> tokens, Index label) {
  data::Sample sample;
  sample.length = static_cast<Index>(tokens.size());
  sample.tokens = std::move(tokens);
  sample.label = label;
  return sample;
}

// Normal features, the i-th sample of class i mod classes with `distance` added to the feature of its class.
struct Problem {
  Features x;
  std::vector<Index> labels;

  Problem(Index n, Index F, Index classes, double distance, std::uint64_t seed) : x(n, F) {
    Stream random(seed, "problem");
    for (Index i = 0; i < n; ++i) {
      labels.push_back(i % classes);
      for (Index j = 0; j < F; ++j)
        x(i, j) = static_cast<float>(random.normal() + (j == i % classes ? distance : 0) + 0.5);
    }
  }
};

}  // namespace saddle::eval
