#include "saddle/eval/baseline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "places.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/data/find.hpp"
#include "saddle/eval/samples_test.hpp"

namespace saddle::eval {
namespace {

using data::Description;
using data::Kind;
using data::Sample;
using testing::ElementsAre;
using testing::HasSubstr;

data::Task task_of(const Description& about, std::vector<Sample> train, std::vector<Sample> test) {
  const auto shared_train = std::make_shared<MemoryData>(about, std::move(train));
  const auto shared_test = std::make_shared<MemoryData>(about, std::move(test));
  return {about.name, [=] { return shared_train; }, nullptr, [=] { return shared_test; }};
}

std::vector<std::string> names_of(const std::vector<Baseline>& all) {
  std::vector<std::string> names;
  for (const Baseline& baseline : all) names.push_back(baseline.name);
  return names;
}

const Baseline& named(const std::vector<Baseline>& all, const std::string& name) {
  for (const Baseline& baseline : all)
    if (baseline.name == name) return baseline;
  throw InvalidArgument("no baseline " + name);
}

// Waves at a random phase, slow or fast.
std::vector<Sample> waves(Index count, std::uint64_t seed) {
  Stream random(seed, "waves");
  std::vector<Sample> samples;
  for (Index i = 0; i < count; ++i) {
    std::vector<float> values;
    const double phase = 6.3 * random.uniform(), speed = i % 2 == 0 ? 0.2 : 0.7;
    const auto length = static_cast<int>(30 + random.below(10));
    for (int t = 0; t < length; ++t)
      values.push_back(static_cast<float>(std::sin(phase + speed * t) + 0.1 * random.normal()));
    samples.push_back(series_sample(std::move(values), 1, i % 2));
  }
  return samples;
}

const Description wave_description{.name = "waves",
                                   .kind = Kind::series,
                                   .channels = 1,
                                   .min_length = 30,
                                   .max_length = 39,
                                   .classes = {"slow", "fast"}};

TEST(Baselines, OfSeries) {
  const auto all = baselines(task_of(wave_description, waves(60, 1), waves(40, 2)));
  EXPECT_THAT(names_of(all), ElementsAre("commonest", "ridge", "rocket-1k"));
  EXPECT_EQ(all[0].accuracy, 0.5);
  EXPECT_LT(all[1].accuracy, 0.8);  // the phase is random: no linear rule
  EXPECT_GT(all[2].accuracy, 0.95);
  for (const Baseline& baseline : all) EXPECT_EQ(baseline.count, 40);
}

TEST(Baselines, TablesHaveNoConvolutions) {
  Description about = wave_description;
  about.max_length = 2;
  about.table = {{"a"}, {"b"}};
  std::vector<Sample> samples;
  for (Index i = 0; i < 20; ++i)
    samples.push_back(series_sample({static_cast<float>(i % 2), static_cast<float>(i)}, 1, i % 2));
  const auto all = baselines(task_of(about, samples, samples));
  EXPECT_THAT(names_of(all), ElementsAre("commonest", "ridge"));
  EXPECT_EQ(all[1].accuracy, 1);
}

const Description token_description{.name = "words",
                                    .kind = Kind::tokens,
                                    .vocabulary = 6,
                                    .min_length = 1,
                                    .max_length = 9,
                                    .classes = {"a", "b", "c"}};

TEST(Baselines, OfTokens) {
  // The first token tells a from the others, the share of token 4 all three.
  std::vector<Sample> train, test;
  for (int i = 0; i < 60; ++i) {
    train.push_back(token_sample({1, 3, 3, 3, 3}, 0));
    train.push_back(token_sample({2, 3, 3, 4, 4}, 1));
    train.push_back(token_sample({2, 4, 4, 4, 4}, 2));
  }
  train.push_back(token_sample({2, 3, 3, 4, 4}, 1));
  test = {token_sample({1, 3, 3, 3, 3}, 0), token_sample({2, 3, 3, 4, 4}, 1), token_sample({2, 4, 4, 4, 4}, 2),
          token_sample({5, 4, 4, 4, 4}, 2)};
  const auto all = baselines(task_of(token_description, train, test));
  EXPECT_THAT(names_of(all), ElementsAre("commonest", "first token", "histogram"));
  EXPECT_EQ(all[0].accuracy, 0.25);  // b
  EXPECT_EQ(all[1].accuracy, 0.5);   // a and b; a token never seen first gets the commonest, b
  EXPECT_EQ(all[2].accuracy, 1);
}

TEST(Baselines, TokensAreCutAtTheUsualLength) {
  // What tells the classes apart stands behind the third token.
  std::vector<Sample> samples;
  for (Index i = 0; i < 40; ++i)
    samples.push_back(i % 2 == 0 ? token_sample({1, 2, 3, 4, 4, 4}, 0) : token_sample({1, 2, 3, 5, 5, 5}, 1));
  Description about = token_description;
  about.classes = {"a", "b"};
  EXPECT_EQ(named(baselines(task_of(about, samples, samples)), "histogram").accuracy, 1);
  about.usual_length = 3;
  const auto cut = named(baselines(task_of(about, samples, samples)), "histogram");
  EXPECT_EQ(cut.accuracy, 0.5);
  EXPECT_THAT(cut.what, HasSubstr("the first 3 tokens"));
  EXPECT_EQ(named(baselines(task_of(about, samples, samples), {.max_length = 6}), "histogram").accuracy, 1);
}

// Of all classes alike, so the commonest class of the rest need not be that of all.
TEST(Baselines, FitOnAsManySamplesAsModels) {
  std::vector<Sample> train(10, token_sample({1}, 0)), test(4, token_sample({2}, 1));
  train.insert(train.end(), 30, token_sample({2}, 1));
  Description about = token_description;
  about.classes = {"a", "b"};
  const data::Task task = task_of(about, train, test);
  EXPECT_EQ(named(baselines(task), "commonest").accuracy, 1);
  EXPECT_EQ(named(baselines(task, {.limit = 40}), "commonest").accuracy, 1);
  EXPECT_EQ(named(baselines(task, {.limit = 10}), "commonest").accuracy, 0);
  EXPECT_EQ(named(baselines(task, {.limit = 10}), "first token").accuracy, 1);
  EXPECT_THROW(baselines(task, {.limit = -1}), InvalidArgument);
}

TEST(Baselines, OfPairs) {
  Description about = token_description;
  about.kind = Kind::pair;
  about.classes = {"a", "b"};
  std::vector<Sample> samples;
  for (Index i = 0; i < 40; ++i) {
    samples.push_back(token_sample({1, 2}, i % 2));
    samples.back().second = {static_cast<std::int32_t>(3 + i % 2)};
  }
  const auto all = baselines(task_of(about, samples, samples));
  EXPECT_THAT(names_of(all), ElementsAre("commonest", "histogram"));
  EXPECT_EQ(all[1].accuracy, 1);
}

std::vector<Sample> spots(Index count, bool tokens, std::uint64_t seed) {
  Stream random(seed, "spots");
  std::vector<Sample> samples;
  for (Index i = 0; i < count; ++i) {
    std::vector<float> values(9);
    for (float& value : values) value = static_cast<float>(0.2 * random.uniform());
    values[static_cast<std::size_t>(i % 3)] = 1;
    std::vector<std::int32_t> grey;
    for (const float value : values) grey.push_back(static_cast<std::int32_t>(255 * value));
    samples.push_back(tokens ? token_sample(grey, i % 3) : series_sample(values, 1, i % 3));
  }
  return samples;
}

TEST(Baselines, OfImagesAndOfPixelsInARow) {
  Description about{
      .name = "spots", .kind = Kind::image, .channels = 1, .rows = 3, .columns = 3, .classes = {"a", "b", "c"}};
  const auto image = baselines(task_of(about, spots(60, false, 1), spots(30, false, 2)));
  EXPECT_THAT(names_of(image), ElementsAre("commonest", "ridge on pixels", "nearest centroid"));
  EXPECT_EQ(image[1].accuracy, 1);
  EXPECT_EQ(image[2].accuracy, 1);
  about.kind = Kind::tokens;
  about.vocabulary = 256;
  const auto row = baselines(task_of(about, spots(60, true, 1), spots(30, true, 2)));
  EXPECT_THAT(names_of(row),
              ElementsAre("commonest", "first token", "histogram", "ridge on pixels", "nearest centroid"));
  EXPECT_EQ(named(row, "ridge on pixels").accuracy, 1);
}

TEST(Baselines, AClassWithoutTrainingSamplesIsNeverNearest) {
  const Description about{
      .name = "spots", .kind = Kind::image, .channels = 1, .rows = 3, .columns = 3, .classes = {"a", "b", "c", "none"}};
  std::vector<Sample> dark{series_sample(std::vector<float>(9), 1, 3)};
  EXPECT_EQ(named(baselines(task_of(about, spots(30, false, 1), dark)), "nearest centroid").accuracy, 0);
}

TEST(Baselines, UnlabelledTestSamplesAreNotScored) {
  std::vector<Sample> test = waves(20, 2);
  for (std::size_t i = 0; i < 20; i += 2) test[i].label = -1;
  const auto all = baselines(task_of(wave_description, waves(30, 1), test));
  for (const Baseline& baseline : all) EXPECT_EQ(baseline.count, 10);
  EXPECT_EQ(all[0].accuracy, 0);  // "slow" is the first of two equally common ones; only "fast" is left
}

TEST(Baselines, SeedAndThreads) {
  const data::Task task = task_of(wave_description, waves(24, 3), waves(200, 4));
  const int before = threads();
  set_threads(1);
  const auto one = baselines(task, {.seed = 1});
  set_threads(3);
  const auto three = baselines(task, {.seed = 1});
  set_threads(before);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i].accuracy, three[i].accuracy) << one[i].name;
}

TEST(Baselines, Refusals) {
  const auto refused = [](const data::Task& task, const std::string& message, const BaselineOptions& options = {}) {
    try {
      baselines(task, options);
      ADD_FAILURE() << "accepted, expected: " << message;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  };
  Description about = wave_description;
  refused(task_of(about, waves(10, 1), waves(10, 2)), "1 or more", {.max_length = -1});
  about.classes = {"slow"};
  refused(task_of(about, waves(10, 1), waves(10, 2)), "has 1 classes, at least two");
  std::vector<Sample> unlabelled = waves(10, 1);
  unlabelled[3].label = -1;
  refused(task_of(wave_description, unlabelled, waves(10, 2)), "a label for every training sample");
  for (Sample& sample : unlabelled) sample.label = -1;
  refused(task_of(wave_description, waves(10, 1), unlabelled), "no test samples with labels");
  data::Task no_test = task_of(wave_description, waves(10, 1), {});
  refused(no_test, "no test samples with labels");
  no_test.test = nullptr;
  refused(no_test, "no test samples with labels");
  about.kind = Kind::events;
  EXPECT_THROW(baselines(task_of(about, {token_sample({1}, -1)}, {})), NotSupported);
}

// Figures that were measured with other programs, in per cent.
TEST(Baselines, OfPublishedData) {
  const char* variable = std::getenv("SADDLE_DATA");
  data::Where where;
  where.folder = variable != nullptr ? variable : SADDLE_SOURCE_DIR "/../shared/data";
  if (!std::filesystem::is_directory(where.folder)) GTEST_SKIP() << "no data in " << where.folder;
  const struct {
    const char *data, *baseline;
    double accuracy, within;
  } known[] = {{"JapaneseVowels", "ridge", 98.1, 0.05},   {"JapaneseVowels", "rocket-1k", 99.5, 1},
               {"ItalyPowerDemand", "ridge", 97.0, 0.05}, {"ItalyPowerDemand", "rocket-1k", 96.8, 1},
               {"ArrowHead", "commonest", 39.4, 0.05},    {"ArrowHead", "ridge", 76.0, 0.05},
               {"listops", "first token", 33.5, 0.05}};
  std::string last;
  std::vector<Baseline> all;
  for (const auto& figure : known) {
    if (figure.data != last) all = baselines(data::find_task(figure.data, where));
    last = figure.data;
    EXPECT_NEAR(100 * named(all, figure.baseline).accuracy, figure.accuracy, figure.within)
        << figure.data << " " << figure.baseline;
  }
}

}  // namespace
}  // namespace saddle::eval
