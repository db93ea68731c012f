#include "saddle/train/training.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"
#include "saddle/train/trained.hpp"

namespace saddle::train {
namespace {

namespace fs = std::filesystem;
using run::Folder;
using testing::HasSubstr;

std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

nlohmann::json result_of(const fs::path& folder) { return nlohmann::json::parse(contents(folder / "result.json")); }

// Lines of metrics.jsonl without what depends on the clock.
std::vector<std::string> metrics_of(const fs::path& folder) {
  std::vector<std::string> lines;
  std::istringstream in(contents(folder / "metrics.jsonl"));
  for (std::string line; std::getline(in, line);) {
    auto record = nlohmann::ordered_json::parse(line);
    record.erase("seconds");
    lines.push_back(record.dump());
  }
  return lines;
}

// Two classes of short waves of different frequency, in files of their own.
class TrainingTest : public testing::Test {
 protected:
  TrainingTest() {
    fs::remove_all(root_);
    fs::create_directories(root_ / "waves");
    write_waves("TRAIN", 40, 1);
    write_waves("TEST", 30, 2);
  }
  ~TrainingTest() override { fs::remove_all(root_); }

  void write_waves(const std::string& split, Index count, std::uint64_t seed) const {
    std::ofstream out(root_ / "waves" / ("waves_" + split + ".ts"));
    out << "@problemName waves\n@univariate false\n@dimensions 2\n@equalLength false\n@classLabel true fast "
           "slow\n@data\n";
    Stream stream(seed, "waves");
    for (Index i = 0; i < count; ++i) {
      const bool fast = i % 2 == 0;
      const Index length = 9 + static_cast<Index>(stream.below(4));
      for (int channel = 0; channel < 2; ++channel) {
        for (Index t = 0; t < length; ++t)
          out << (t == 0 ? "" : ",")
              << std::sin((fast ? 2.0 : 0.7) * static_cast<double>(t) + channel) + 0.3 * stream.normal();
        out << ":";
      }
      out << (fast ? "fast" : "slow") << "\n";
    }
  }

  run::Settings settings(std::vector<run::Given> more = {}) const {
    std::vector<run::Given> given{{"data.name", (root_ / "waves").string(), ""},
                                  {"train.epochs", "4", ""},
                                  {"train.batch", "8", ""},
                                  {"model.name", "flowformer", ""},
                                  {"model.width", "8", ""},
                                  {"model.hidden", "16", ""},
                                  {"model.heads", "2", ""},
                                  {"model.depth", "1", ""}};
    given.insert(given.end(), more.begin(), more.end());
    return run::resolve(given);
  }

  Ended train_in(
      const std::string& name, const run::Settings& what, Folder::Open how = Folder::Open::fresh,
      std::function<bool()> interrupted = [] { return false; }, std::vector<std::string> allowed = {}) const {
    RunOptions options;
    options.out = root_ / name;
    options.open = how;
    options.quiet = true;
    options.interrupted = std::move(interrupted);
    options.allowed = std::move(allowed);
    Group alone;
    return train(what, options, alone);
  }

  const fs::path root_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(TrainingTest, LearnsAndLeavesACompleteFolder) {
  EXPECT_EQ(train_in("run", settings({{"train.epochs", "30", ""}, {"train.lr", "0.01", ""}})), Ended::finished);
  const nlohmann::json result = result_of(root_ / "run");
  EXPECT_GE(result["test"]["accuracy"].get<double>(), 0.9);
  EXPECT_EQ(result["data"]["train"], 32);
  EXPECT_EQ(result["data"]["validation"], 8);
  EXPECT_EQ(result["test"]["count"], 30);
  EXPECT_EQ(result["protocol"], "honest");
  EXPECT_EQ(result["attention"], nlohmann::json::array({"softmax"}));
  EXPECT_GT(result["multiply_adds"].get<double>(), 0);
  EXPECT_GT(result["head_distance"]["test"][0]["mean"].get<double>(), 0);
  for (const char* file :
       {"config.toml", "env.json", "metrics.jsonl", "predictions.csv", "inspect.json", "checkpoints/best.safetensors"})
    EXPECT_TRUE(fs::exists(root_ / "run" / file)) << file;
  // The test split appears nowhere before the end.
  for (const std::string& line : metrics_of(root_ / "run")) EXPECT_EQ(line.find("\"test\""), std::string::npos);
}

TEST_F(TrainingTest, InterruptedAnywhereAndResumedGivesTheSameBits) {
  const run::Settings what = settings({{"train.ema", "0.9", ""},
                                       {"train.mixup", "0.2", ""},
                                       {"train.label_smoothing", "0.1", ""},
                                       {"train.clip", "1", ""}});
  ASSERT_EQ(train_in("whole", what), Ended::finished);
  for (const int often : {1, 3, 5}) {
    const std::string name = "cut" + std::to_string(often);
    Ended ended = Ended::interrupted;
    for (int start = 0; ended == Ended::interrupted; ++start) {
      int updates = 0;
      ended = train_in(name, what, start == 0 ? Folder::Open::fresh : Folder::Open::resume,
                       [&] { return ++updates >= often; });
    }
    EXPECT_EQ(contents(root_ / name / "checkpoints/best.safetensors"),
              contents(root_ / "whole/checkpoints/best.safetensors"))
        << often;
    EXPECT_EQ(metrics_of(root_ / name), metrics_of(root_ / "whole")) << often;
    EXPECT_EQ(contents(root_ / name / "predictions.csv"), contents(root_ / "whole/predictions.csv")) << often;
  }
}

TEST_F(TrainingTest, SeedsDecideEverything) {
  train_in("a", settings());
  train_in("b", settings());
  train_in("c", settings({{"train.seed", "1", ""}}));
  EXPECT_EQ(contents(root_ / "a/checkpoints/best.safetensors"), contents(root_ / "b/checkpoints/best.safetensors"));
  EXPECT_NE(contents(root_ / "a/checkpoints/best.safetensors"), contents(root_ / "c/checkpoints/best.safetensors"));
}

TEST_F(TrainingTest, PiecesOfABatchGiveTheSameUpdates) {
  const std::vector<run::Given> still{{"model.dropout", "0", ""}, {"model.attention_dropout", "0", ""}};
  auto pieces = still;
  pieces.push_back({"train.accumulate", "3", ""});
  train_in("whole", settings(still));
  train_in("pieces", settings(pieces));
  const double whole = result_of(root_ / "whole")["test"]["loss"], cut = result_of(root_ / "pieces")["test"]["loss"];
  EXPECT_NEAR(whole, cut, 1e-4 * whole);
}

TEST_F(TrainingTest, ThePaperProtocolChoosesOnTheTestSplitAndSaysSo) {
  train_in("run", settings({{"data.protocol", "paper", ""}}));
  const nlohmann::json result = result_of(root_ / "run");
  EXPECT_EQ(result["protocol"], "paper");
  EXPECT_EQ(result["data"]["train"], 40);
  EXPECT_FALSE(result.contains("validation"));
  double best = 0;
  for (const std::string& line : metrics_of(root_ / "run")) {
    const auto record = nlohmann::json::parse(line);
    if (record["split"] == "test") best = std::max(best, record["accuracy"].get<double>());
  }
  EXPECT_EQ(result["test"]["accuracy"], best);
}

TEST_F(TrainingTest, ResumingWithOtherSettingsIsRefused) {
  int updates = 0;
  ASSERT_EQ(train_in("run", settings(), Folder::Open::fresh, [&] { return ++updates >= 2; }), Ended::interrupted);
  const run::Settings other = settings({{"train.lr", "0.5", ""}});
  try {
    train_in("run", other, Folder::Open::resume);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("train.lr was 0.001 and is 0.5"));
  }
  EXPECT_EQ(train_in("run", other, Folder::Open::resume, [] { return false; }, {"train.lr"}), Ended::finished);
}

TEST_F(TrainingTest, DamagedCheckpointsAreNeverLoaded) {
  int updates = 0;
  ASSERT_EQ(train_in("run", settings(), Folder::Open::fresh, [&] { return ++updates >= 6; }), Ended::interrupted);
  const fs::path file = root_ / "run/checkpoints/last.safetensors";
  const std::string good = contents(file);
  const auto refused = [&](const std::string& bytes, const std::string& why) {
    std::ofstream(file, std::ios::binary) << bytes;
    try {
      train_in("run", settings(), Folder::Open::resume);
      ADD_FAILURE() << "a damaged file was loaded";
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("last.safetensors"));
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  };
  std::string flipped = good;
  flipped[flipped.size() - 3] = static_cast<char>(flipped[flipped.size() - 3] ^ 4);
  refused(flipped, "checksum");
  std::string other_step = good;
  other_step.replace(other_step.find("step"), 4, "sten");
  refused(other_step, "checksum");
  refused(good.substr(0, good.size() / 2), "");
  refused("", "");
  std::ofstream(file, std::ios::binary) << good;
  EXPECT_EQ(train_in("run", settings(), Folder::Open::resume), Ended::finished);
}

TEST_F(TrainingTest, WithoutSamplesToSpareTheLastEpochIsTaken) {
  train_in("run", settings({{"data.validation", "0", ""}}));
  EXPECT_FALSE(result_of(root_ / "run").contains("validation"));
  EXPECT_EQ(result_of(root_ / "run")["best_epoch"], 4);
  train_in("budget",
           settings({{"data.validation", "0", ""}, {"train.epochs", "100000", ""}, {"train.budget", "0.2", ""}}));
  EXPECT_EQ(result_of(root_ / "budget")["stopped"], "budget");
}

TEST_F(TrainingTest, ResumingOnOtherDataIsRefused) {
  int updates = 0;
  ASSERT_EQ(train_in("run", settings(), Folder::Open::fresh, [&] { return ++updates >= 2; }), Ended::interrupted);
  write_waves("TRAIN", 40, 5);
  EXPECT_THROW(train_in("run", settings(), Folder::Open::resume), InvalidArgument);
  write_waves("TRAIN", 40, 1);
  EXPECT_EQ(train_in("run", settings(), Folder::Open::resume), Ended::finished);
}

TEST_F(TrainingTest, StopsEarlyAndWithinABudget) {
  train_in("early", settings({{"train.epochs", "200", ""}, {"train.patience", "3", ""}, {"train.lr", "0", ""}}));
  EXPECT_EQ(result_of(root_ / "early")["stopped"], "early");
  EXPECT_EQ(result_of(root_ / "early")["epochs"], 4) << "nothing is learnt, so three evaluations behind the first";
  train_in("budget", settings({{"train.epochs", "100000", ""}, {"train.budget", "0.3", ""}}));
  EXPECT_EQ(result_of(root_ / "budget")["stopped"], "budget");
}

TEST_F(TrainingTest, ATrainedModelComesBackFromItsFolder) {
  train_in("run", settings());
  const Trained trained = read_trained(root_ / "run");
  EXPECT_EQ(trained.data.classes, (std::vector<std::string>{"fast", "slow"}));
  EXPECT_EQ(trained.scaling.mean.size(), 2U);
  EXPECT_EQ(trained.max_length, 12);
  EXPECT_FALSE(trained.model->is_training());
  EXPECT_THROW(read_trained(root_ / "waves"), InvalidArgument);
}

TEST_F(TrainingTest, AModelThatTakesNoSoftmaxBringsItsOwnAttention) {
  const auto byte = [](unsigned value) { return static_cast<char>(value & 0xff); };
  const auto word = [&](unsigned value) { return std::string{0, 0, byte(value >> 8), byte(value)}; };
  const unsigned count = 20, size = 8;
  std::ofstream images(root_ / "train-images-idx3-ubyte", std::ios::binary);
  std::ofstream labels(root_ / "train-labels-idx1-ubyte", std::ios::binary);
  images << word(2051) << word(count) << word(size) << word(size);
  labels << word(2049) << word(count);
  for (unsigned i = 0; i < count; ++i) {
    images << std::string(size * size, byte(i));
    labels << byte(i % 2);
  }
  images.close();
  labels.close();
  const auto attention = [&](const std::string& model) {
    const run::Settings whole = complete(
        run::resolve({{"data.name", (root_ / "train-images-idx3-ubyte").string(), ""}, {"model.name", model, ""}}));
    EXPECT_EQ(whole.origins.at("model.attention"), "default");
    return whole.model_options.at("attention");
  };
  EXPECT_EQ(attention("spiking_vit"), "spiking");
  EXPECT_EQ(attention("vit_tiny_patch4_8"), "softmax");
}

TEST_F(TrainingTest, WhatDoesNotFitIsNamed) {
  const auto message = [&](const run::Settings& what) -> std::string {
    try {
      train_in("bad", what);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(settings({{"model.name", "vision_transformer", ""}})), HasSubstr("does not take series"));
  EXPECT_THAT(message(settings({{"model.attention", "softmux", ""}})), HasSubstr("softmux"));
  EXPECT_THAT(message(settings({{"model.withd", "9", ""}})), HasSubstr("withd"));
  EXPECT_THAT(message(settings({{"train.lr", "1e30", ""}, {"train.epochs", "50", ""}})), HasSubstr("diverged"));
  EXPECT_THAT(message(settings({{"train.optimizer", "adam", ""}, {"train.weight_decay", "1", ""}})),
              HasSubstr("adam has no weight decay"));
  EXPECT_THAT(message(run::resolve({})), HasSubstr("no data"));
}

}  // namespace
}  // namespace saddle::train
