// Training on sequences of events, from files to a result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "saddle/analysis/registry.hpp"
#include "saddle/analysis/spectrum/spectrum.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"
#include "saddle/data/find.hpp"
#include "saddle/train/probe.hpp"
#include "saddle/train/trained.hpp"
#include "saddle/train/training.hpp"

namespace saddle::train {
namespace {

namespace fs = std::filesystem;

// Type 1 comes after a short gap, type 2 after a long one: the order of types tells nothing.
class EventTraining : public testing::Test {
 protected:
  EventTraining() {
    fs::remove_all(root_);
    fs::create_directories(root_ / "stackoverflow-badges");
    write("train", 40, 1);
    write("test", 20, 2);
    std::ofstream(root_ / "stackoverflow-badges" / "badges.csv") << "id, badge\n1, soon\n2, late\n";
  }
  ~EventTraining() override { fs::remove_all(root_); }

  void write(const std::string& split, int count, std::uint64_t seed) const {
    const auto file = [&](const char* what) {
      return std::ofstream(root_ / "stackoverflow-badges" / ("so_" + split + "_" + what + ".txt"));
    };
    std::ofstream types = file("event"), times = file("time");
    Stream stream(seed, "events");
    for (int i = 0; i < count; ++i) {
      double now = 1e9;
      for (int k = 0; k < 12; ++k) {
        const bool late = stream.uniform() < 0.5;
        now += late ? 40 + 10 * stream.uniform() : 1 + stream.uniform();
        types << (k == 0 ? "" : " ") << (late ? 2 : 1);
        times << (k == 0 ? "" : " ") << std::to_string(now);
      }
      types << "\n";
      times << "\n";
    }
  }

  nlohmann::json train_with(std::vector<run::Given> more) const {
    std::vector<run::Given> given{{"data.name", "stackoverflow-badges", ""},
                                  {"data.folder", root_.string(), ""},
                                  {"data.max_length", "6", ""},
                                  {"train.epochs", "6", ""},
                                  {"train.batch", "16", ""},
                                  {"train.lr", "0.01", ""},
                                  {"model.dropout", "0", ""},
                                  {"model.attention_dropout", "0", ""}};
    given.insert(given.end(), more.begin(), more.end());
    RunOptions options;
    options.out = root_ / "run";
    options.open = run::Folder::Open::replace;
    options.quiet = true;
    options.interrupted = [] { return false; };
    Group alone;
    EXPECT_EQ(train(run::resolve(given), options, alone), Ended::finished);
    std::ifstream in(root_ / "run" / "result.json");
    return nlohmann::json::parse(in);
  }

  const fs::path root_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(EventTraining, LearnsWhatOnlyTimesTell) {
  const nlohmann::json result = train_with({{"model.time", "mercer(degree=3)", ""}});
  EXPECT_GE(result["test"]["accuracy"].get<double>(), 0.95);
  EXPECT_EQ(result["data"]["train"], 32 * 11);
  EXPECT_EQ(result["data"]["validation"], 8 * 11);
  EXPECT_EQ(result["test"]["count"], 20 * 11);
  EXPECT_EQ(result["model"], "event_model");
  EXPECT_EQ(result["attention"], nlohmann::json::array({"softmax+causal"}));
  EXPECT_EQ(result["data"]["classes"], nlohmann::json::array({"soon", "late"}));
  const Trained trained = read_trained(root_ / "run");
  EXPECT_EQ(trained.data.usual_length, 6);
  const fs::path folder = root_ / "stackoverflow-badges";
  const data::DatasetPtr samples = data::open_samples((folder / "so_test_event.txt").string(), trained.data);
  EXPECT_EQ(samples->size(), 20 * 11);
  EXPECT_EQ(samples->length(10), 6);
  EXPECT_GE(samples->label(0), 0);
  EXPECT_THROW(data::open_samples((folder / "so_test_time.txt").string(), trained.data), InvalidArgument);
  EXPECT_LE(train_with({{"model.time", "positions", ""}})["test"]["accuracy"].get<double>(), 0.65);
}

// Blocks of this model have names of their own; their kernels are found all the same.
TEST_F(EventTraining, KernelsOfPrimalAttentionAreFound) {
  train_with({{"model.attention", "primal_attention(rank=2,multiple=2)", ""}, {"train.epochs", "1", ""}});
  const Trained trained = read_trained(root_ / "run");
  const auto file = root_ / "stackoverflow-badges" / "so_test_event.txt";
  analysis::ProbedModel model;
  model.probes.push_back(probe(trained, data::open_samples(file.string(), trained.data), {0, 5, 9}, "test"));
  analysis::Options options;
  const analysis::Result result = analysis::spectrum::analysis().on_model(model, options);
  ASSERT_EQ(result.tables.at(0).rows.size(), 3u);
  EXPECT_EQ(result.tables[0].rows[0].at(2), "kernel");
}

// The last block is narrower than the others, and the model answers from the last event.
TEST_F(EventTraining, AnalysesSeeItsTokens) {
  train_with({{"model.depth", "2", ""}, {"model.attention", "cat_causal", ""}, {"train.epochs", "1", ""}});
  const Trained trained = read_trained(root_ / "run");
  const auto file = root_ / "stackoverflow-badges" / "so_test_event.txt";
  analysis::ProbedModel model;
  for (const char* split : {"train", "test"})
    model.probes.push_back(
        probe(trained, data::open_samples(file.string(), trained.data), {0, 5, 9, 16, 27, 31, 40}, split));
  const analysis::Probe& seen = model.probes.back();
  EXPECT_TRUE(seen.last_token);
  ASSERT_EQ(seen.layers.size(), 2u);
  EXPECT_EQ(seen.layers[0].tokens.shape(), seen.tokens.shape());
  EXPECT_LT(seen.layers[1].tokens.shape()[2], seen.tokens.shape()[2]);
  EXPECT_FALSE(analysis::token_weights(seen, seen.layers[1]).empty());
  for (const char* name : {"attention_paths", "rank_collapse"}) {
    analysis::Options options;
    EXPECT_FALSE(analysis::find(name).on_model(model, options).figures.empty()) << name;
  }
}

TEST_F(EventTraining, OtherModelsAreRefused) {
  try {
    train_with({{"model.name", "sequence_classifier", ""}});
    FAIL() << "a model without times was accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("does not take events"));
    EXPECT_THAT(error.hint(), testing::HasSubstr("event_model"));
  }
}

}  // namespace
}  // namespace saddle::train
