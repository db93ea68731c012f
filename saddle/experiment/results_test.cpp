#include "saddle/experiment/results.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "saddle/base/error.hpp"
#include "saddle/experiment/budget.hpp"

namespace saddle::experiment {
namespace {

namespace fs = std::filesystem;

Record record(const std::string& attention, Index seed, double accuracy, double seconds = 10) {
  Record r;
  r.part = "a";
  r.protocol = "honest";
  r.data = "X";
  r.attention = attention;
  r.seed = seed;
  r.accuracy = accuracy;
  r.train_seconds = seconds;
  r.precision = "float32";
  return r;
}

class ResultsTest : public testing::Test {
 protected:
  const fs::path file_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
  ~ResultsTest() override { fs::remove_all(file_); }
  void write(const std::string& text) const { std::ofstream(file_) << text; }
};

TEST_F(ResultsTest, AFileKeepsEverything) {
  Results results{"e", {record("softmax", 0, 0.5)}, {{"X", "ridge", 0.25}}, {{"a", "X", "0.2", 0.75, 1.5, true}}};
  Record& r = results.records[0];
  r.validation = 0.625;
  r.epochs = 7;
  r.train_distance = {{1, 2, 3}};
  r.cpu = "a \"quoted\" name";
  write(write_results(results));
  const Results back = read_results(file_.string());
  ASSERT_EQ(back.records.size(), 1U);
  EXPECT_EQ(back.records[0].validation, 0.625);
  EXPECT_FALSE(back.records[0].validation_loss.has_value());
  EXPECT_EQ(back.records[0].epochs, 7);
  EXPECT_EQ(back.records[0].train_distance.at(0).norm, 3);
  EXPECT_EQ(back.records[0].cpu, r.cpu);
  EXPECT_EQ(back.floors.at(0).accuracy, 0.25);
  EXPECT_TRUE(back.choices.at(0).chosen);
  EXPECT_EQ(write_results(back), write_results(results));
}

// Equal accuracies must stay equal, whether a run was read from its folder or from the file of all of them.
TEST_F(ResultsTest, AccuraciesStayWholeNumbersOfSamples) {
  Results results{"e", {record("softmax", 0, 984.0 / 1029), record("softmax", 1, 0.123456)}, {}, {}};
  results.records[0].test = 1029;
  results.records[0].last = 3.0 / 1029;
  results.records[1].test = 10;  // no share of ten samples
  write(write_results(results));
  const Results back = read_results(file_.string());
  EXPECT_EQ(back.records.at(0).accuracy, 984.0 / 1029);
  EXPECT_EQ(back.records.at(0).last, 3.0 / 1029);
  EXPECT_EQ(back.records.at(1).accuracy, 0.12346);
}

TEST_F(ResultsTest, BrokenFilesAreRefused) {
  EXPECT_TRUE(read_results(file_.string()).records.empty()) << "there is none yet";
  write("{");
  EXPECT_THROW(read_results(file_.string()), DataError);
  write("{\"schema\": \"other/1\"}");
  EXPECT_THROW(read_results(file_.string()), DataError);
}

TEST_F(ResultsTest, FreshRecordsReplaceThoseOfTheSameCell) {
  Results into{"e", {record("softmax", 0, 0.5), record("softmax", 1, 0.6)}, {}, {}};
  merge(into, {"e", {record("softmax", 1, 0.7), record("linear", 0, 0.8)}, {{"X", "ridge", 0.1}}, {}});
  ASSERT_EQ(into.records.size(), 3U);
  EXPECT_EQ(into.records[1].accuracy, 0.7);
  EXPECT_EQ(into.floors.size(), 1U);
}

Experiment small() {
  Experiment e;
  e.name = "e";
  e.parts.push_back({"a",
                     "e/a",
                     "A",
                     {"X"},
                     {"softmax", "softmax+bn(beta=*)"},
                     {"0.2", "0.4"},
                     {"honest"},
                     5,
                     {{"train.epochs", "100"}},
                     {}});
  return e;
}

TEST(Budget, CutsSeedsBeforeEpochs) {
  const Results known{"e", {record("softmax", 0, 0.5, 10), record("softmax+bn(beta=0.2)", 0, 0.5, 20)}, {}, {}};
  // 13 s and 26 s a run, five seeds of both and one choice more.
  const Extent all = extent_within(small(), known, 1e6, 1);
  EXPECT_EQ(all.seeds, 5);
  EXPECT_EQ(all.epochs, 1);
  EXPECT_NEAR(all.whole, 5 * 39 + 26, 1e-9);
  EXPECT_NEAR(extent_within(small(), known, 1e6, 2).whole, (5 * 39 + 26) / 2.0, 1e-9);
  const Extent two = extent_within(small(), known, 2 * 39 + 26 + 1, 1);
  EXPECT_EQ(two.seeds, 2);
  EXPECT_EQ(two.epochs, 1);
  const Extent less = extent_within(small(), known, 6.5, 1);
  EXPECT_EQ(less.seeds, 1);
  EXPECT_NEAR(less.epochs, 6.5 / 65, 1e-9);
  const Experiment cut = reduced(small(), less);
  EXPECT_EQ(cut.parts[0].seeds, 1);
  EXPECT_EQ(cut.parts[0].settings[0].second, "10");
  EXPECT_EQ(cut.parts[0].name, "a-e10");
  EXPECT_EQ(cut.parts[0].folder, "e/a-e10") << "other settings, other runs";
  EXPECT_EQ(reduced(small(), two).parts[0].name, "a");
}

TEST(Budget, AChoiceIsPaidForOnce) {
  const Results known{"e", {record("softmax", 0, 0.5, 10), record("softmax+bn(beta=0.2)", 0, 0.5, 20)}, {}, {}};
  Experiment e = small();
  Part second = e.parts[0];
  second.name = "b";
  second.chooser = std::make_shared<const Part>(e.parts[0]);
  e.parts.push_back(second);
  Results both = known;
  for (Record each : known.records) {
    each.part = "b";
    both.records.push_back(each);
  }
  EXPECT_NEAR(extent_within(e, both, 1e6, 1).whole, 2 * 5 * 39 + 26, 1e-9);
  const Experiment cut = reduced(e, {1, 0.1, 0, 0});
  EXPECT_EQ(chooser_of(cut.parts[1]).name, "a-e10");
  e.parts.erase(e.parts.begin());  // the second part alone needs both runs of the first for its choice
  EXPECT_NEAR(extent_within(e, both, 1e6, 1).whole, 5 * 39 + 2 * 26, 1e-9);
  e = small();
  e.parts[0].protocols = {"paper"};  // the choice takes honest runs, whatever the others are
  EXPECT_NEAR(extent_within(e, known, 1e6, 1).whole, 5 * 2 * 26 + 2 * 26, 1e-9);
}

TEST(Budget, WhatIsNotKnownIsTriedShortly) {
  Experiment e = small();
  e.parts[0].data = {"X", "Y"};
  const Results known{"e", {record("softmax", 0, 0.5, 10)}, {}, {}};
  std::vector<Probe> list = probes(e, known);
  ASSERT_EQ(list.size(), 1U) << "X is known";
  EXPECT_EQ(list[0].of, "a");
  EXPECT_EQ(list[0].times, 100);
  EXPECT_THAT(list[0].part.data, testing::ElementsAre("Y"));
  EXPECT_THAT(list[0].part.attentions, testing::ElementsAre("softmax"));
  EXPECT_EQ(list[0].part.seeds, 1);
  EXPECT_EQ(list[0].part.settings[0].second, "1");
  EXPECT_EQ(list[0].part.folder, "e/a-e1");
  EXPECT_TRUE(list[0].part.choices.empty());
  e.parts[0].attentions = {"softmax+bn(beta=*)"};
  e.parts[0].settings = {{"train.steps", "30"}};
  list = probes(e, {});
  ASSERT_EQ(list.size(), 2U);
  EXPECT_THAT(list[0].part.attentions, testing::ElementsAre("softmax+bn(beta=0.2)")) << "nothing to choose";
  EXPECT_EQ(list[0].times, 30) << "one step at least";
}

TEST(Budget, WhatIsNotKnownIsEstimated) {
  const Experiment e = small();
  const Results known{"e", {record("softmax", 0, 0.5, 10)}, {}, {}};
  EXPECT_NEAR(estimated_seconds(known, e.parts[0], "honest", "X", "softmax"), 13, 1e-9);
  EXPECT_NEAR(estimated_seconds(known, e.parts[0], "paper", "X", "linear"), 13, 1e-9) << "the same data";
  EXPECT_NEAR(estimated_seconds(known, e.parts[0], "honest", "Y", "linear"), 13, 1e-9) << "the dearest of the part";
  EXPECT_EQ(estimated_seconds({}, e.parts[0], "honest", "Y", "linear"), 300);
}

}  // namespace
}  // namespace saddle::experiment
