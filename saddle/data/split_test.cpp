#include "saddle/data/split.hpp"

#include <cmath>
#include <numeric>

#include "saddle/data/records.hpp"
#include "saddle/data/scratch_test.hpp"

namespace saddle::data {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::FloatNear;

// Series of one step and channel, with these labels.
DatasetPtr labelled(const std::vector<Index>& labels) {
  std::vector<Record> list;
  std::vector<float> values;
  for (const Index label : labels) {
    list.push_back({0, 0, 1, label});
    values.push_back(static_cast<float>(values.size()));
  }
  return series_in_memory({.channels = 1}, std::move(values), list);
}

std::vector<Index> everything(const Dataset& data) {
  std::vector<Index> all(static_cast<std::size_t>(data.size()));
  std::iota(all.begin(), all.end(), Index{0});
  return all;
}

TEST(Split, HoldsOutTheShareOfEveryClass) {
  std::vector<Index> labels;
  for (int i = 0; i < 50; ++i) labels.push_back(0);
  for (int i = 0; i < 13; ++i) labels.push_back(1);
  for (int i = 0; i < 2; ++i) labels.push_back(2);
  labels.push_back(3);
  const DatasetPtr data = labelled(labels);
  const Split split = stratified_split(*data, 0.2, 7);
  std::vector<int> held(4, 0);
  for (const Index i : split.validation) ++held[static_cast<std::size_t>(data->label(i))];
  EXPECT_THAT(held, ElementsAre(10, 3, 1, 0));  // rounded; at least one; never all
  EXPECT_TRUE(std::is_sorted(split.train.begin(), split.train.end()));
  EXPECT_TRUE(std::is_sorted(split.validation.begin(), split.validation.end()));
  std::vector<Index> both = split.train;
  both.insert(both.end(), split.validation.begin(), split.validation.end());
  std::sort(both.begin(), both.end());
  EXPECT_EQ(both, everything(*data));
}

TEST(Split, LimitTakesAllClassesAlike) {
  std::vector<Index> samples(100);
  std::iota(samples.begin(), samples.end(), Index{0});
  const auto class_of = [](Index sample) { return sample < 90 ? Index{0} : Index{1}; };
  const std::vector<Index> kept = limited(samples, 12, class_of);
  EXPECT_EQ(kept.size(), 12u);
  EXPECT_EQ(std::count_if(kept.begin(), kept.end(), class_of), 6);
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
  EXPECT_EQ(limited(samples, 12, class_of), kept);
  EXPECT_EQ(std::ranges::count_if(limited(samples, 50, class_of), class_of), 10);  // there are no more
  EXPECT_EQ(limited(samples, 0, class_of), samples);
}

TEST(Split, DependsOnTheSeedAlone) {
  std::vector<Index> labels;
  for (Index i = 0; i < 200; ++i) labels.push_back(i % 5);
  const DatasetPtr data = labelled(labels);
  EXPECT_EQ(stratified_split(*data, 0.2, 3).validation, stratified_split(*data, 0.2, 3).validation);
  EXPECT_NE(stratified_split(*data, 0.2, 3).validation, stratified_split(*data, 0.2, 4).validation);
  EXPECT_TRUE(stratified_split(*data, 0, 3).validation.empty());
}

TEST(Split, TheShareIsAShare) {
  const DatasetPtr data = labelled({0, 1});
  for (const double share : {-0.1, 1.0, 2.0, std::nan("")})
    EXPECT_THROW(static_cast<void>(stratified_split(*data, share, 0)), InvalidArgument) << share;
}

TEST(Scaling, IsTheMeanAndUnbiasedDeviationOfAllStepsOfTheGivenSamples) {
  // Two channels; the third sample is not fitted.
  const DatasetPtr data =
      series_in_memory({.channels = 2}, {1, 5, 2, 5, 3, 5, 6, 5, 1000, -7}, {{0, 0, 3, 0}, {0, 0, 1, 0}, {0, 0, 1, 0}});
  const std::vector<Index> fitted{0, 1};
  const Scaling scaling = Scaling::fit(*data, fitted);
  EXPECT_THAT(scaling.mean, ElementsAre(DoubleNear(3, 1e-15), 5));
  const double deviation = std::sqrt(14.0 / 3);  // 1, 2, 3, 6
  EXPECT_THAT(scaling.deviation, ElementsAre(DoubleNear(deviation, 1e-15), 0));
  Sample sample = sample_of(*data, 0);
  scaling.apply(sample, 2);
  const auto at = [&](double x) { return FloatNear(static_cast<float>((x - 3) / deviation), 1e-7F); };
  EXPECT_THAT(sample.values, ElementsAre(at(1), 0, at(2), 0, at(3), 0));
  // A channel that never changed in training is only moved.
  sample = sample_of(*data, 2);
  scaling.apply(sample, 2);
  EXPECT_EQ(sample.values[1], -12);
  EXPECT_THROW(scaling.apply(sample, 1), InvalidArgument);
}

TEST(Scaling, HoldsItsPrecisionFarFromZero) {
  std::vector<float> values;
  for (int i = 0; i < 100000; ++i) values.push_back(1e6F + static_cast<float>(i % 2));
  const DatasetPtr data = series_in_memory({.channels = 1}, values, {{0, 0, 100000, 0}});
  const Scaling scaling = Scaling::fit(*data, everything(*data));
  EXPECT_NEAR(scaling.mean[0], 1e6 + 0.5, 1e-6);
  EXPECT_NEAR(scaling.deviation[0], 0.5 * std::sqrt(100000.0 / 99999), 1e-9);
}

TEST(Scaling, WithoutStatisticsNothingChanges) {
  Sample sample;
  sample.values = {3, 4};
  Scaling{}.apply(sample, 2);
  EXPECT_THAT(sample.values, ElementsAre(3, 4));
}

}  // namespace
}  // namespace saddle::data
