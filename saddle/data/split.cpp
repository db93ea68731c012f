#include "saddle/data/split.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"
#include "saddle/base/text.hpp"

namespace saddle::data {

Split stratified_split(const Dataset& data, double validation_share, std::uint64_t seed) {
  if (!(validation_share >= 0 && validation_share < 1))
    throw InvalidArgument("the share held out must be in [0,1), found " + format_number(validation_share));
  std::map<Index, std::vector<Index>> classes;
  for (Index i = 0; i < data.size(); ++i) classes[data.label(i)].push_back(i);
  Split split;
  Stream random(seed, "split");
  for (auto& [label, samples] : classes) {
    random.shuffle(samples);
    const auto size = static_cast<Index>(samples.size());
    const auto rounded = static_cast<Index>(std::llround(validation_share * static_cast<double>(size)));
    const Index held = validation_share > 0 ? std::min(std::max<Index>(rounded, 1), size - 1) : 0;
    split.validation.insert(split.validation.end(), samples.begin(), samples.begin() + held);
    split.train.insert(split.train.end(), samples.begin() + held, samples.end());
  }
  std::sort(split.train.begin(), split.train.end());
  std::sort(split.validation.begin(), split.validation.end());
  return split;
}

std::vector<Index> limited(std::vector<Index> samples, Index limit, const std::function<Index(Index)>& class_of) {
  if (limit > 0 && limit < static_cast<Index>(samples.size())) {
    Stream(0, "limit").shuffle(samples);
    std::map<Index, std::vector<Index>> classes;
    for (const Index sample : samples) classes[class_of(sample)].push_back(sample);
    samples.clear();
    for (std::size_t round = 0; static_cast<Index>(samples.size()) < limit; ++round)
      for (const auto& [label, members] : classes)
        if (round < members.size() && static_cast<Index>(samples.size()) < limit) samples.push_back(members[round]);
  }
  std::sort(samples.begin(), samples.end());
  return samples;
}

namespace {

// Mean and variance in one pass; exact for constants.
struct Moments {
  double count = 0, mean = 0, squares = 0;

  void add(double x) {
    const double delta = x - mean;
    mean += delta / ++count;
    squares += delta * (x - mean);
  }
  double deviation() const { return count > 1 ? std::sqrt(squares / (count - 1)) : 0; }
};

}  // namespace

Scaling Scaling::fit(const Dataset& data, std::span<const Index> samples) {
  const Description& description = data.description();
  Scaling scaling;
  if (description.kind != Kind::series) return scaling;
  const auto channels = static_cast<std::size_t>(description.channels);
  scaling.steps = static_cast<Index>(description.table.size());
  scaling.flagged = description.flagged;
  const std::size_t period = channels * std::max<std::size_t>(1, description.table.size());
  std::vector<Moments> moments(period);
  Sample sample;
  for (const Index i : samples) {
    data.read(i, sample);
    for (std::size_t at = 0, p = 0; at < sample.values.size(); ++at, p = p + 1 == period ? 0 : p + 1)
      if (!scaling.steps || (p % channels == 0 && !(scaling.flagged && sample.values[at + 1] != 0)))
        moments[p].add(sample.values[at]);
  }
  for (std::size_t p = 0; p < period; ++p) {
    // Of tables only numbers are scaled: flags and categories are 0 or 1 already.
    const bool scaled = !scaling.steps || (p % channels == 0 && description.table[p / channels].categories.empty());
    scaling.mean.push_back(scaled ? moments[p].mean : 0);
    scaling.deviation.push_back(scaled ? moments[p].deviation() : 1);
  }
  return scaling;
}

void Scaling::apply(Sample& sample, Index channels) const {
  if (mean.empty()) return;
  const std::size_t period = mean.size();
  if (period != static_cast<std::size_t>(channels * std::max<Index>(1, steps)))
    throw InvalidArgument("the scale was fitted to " + std::to_string(period / std::max<std::size_t>(1, steps)) +
                          " channels, the sample has " + std::to_string(channels));
  for (std::size_t at = 0, p = 0; at < sample.values.size(); ++at, p = p + 1 == period ? 0 : p + 1) {
    const double divisor = deviation[p] > 0 ? deviation[p] + 2.2e-16 : 1;
    sample.values[at] = static_cast<float>((sample.values[at] - mean[p]) / divisor);
  }
  if (!flagged) return;
  for (std::size_t at = 0; at < sample.values.size(); at += static_cast<std::size_t>(channels))
    if (sample.values[at + 1] != 0) sample.values[at] = 0;  // a missing number stands at the mean
}

}  // namespace saddle::data
