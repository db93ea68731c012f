// Training on images with texts, from generated data to a result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "saddle/analysis/registry.hpp"
#include "saddle/base/error.hpp"
#include "saddle/data/generate/generate.hpp"
#include "saddle/train/pretraining_scores.hpp"
#include "saddle/train/probe.hpp"
#include "saddle/train/trained.hpp"
#include "saddle/train/training.hpp"

namespace saddle::train {
namespace {

namespace fs = std::filesystem;
using run::Folder;

std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class ImageTextTraining : public testing::Test {
 protected:
  ImageTextTraining() { fs::remove_all(root_); }
  ~ImageTextTraining() override { fs::remove_all(root_); }

  static run::Settings settings(std::vector<run::Given> more = {}) {
    std::vector<run::Given> given{
        {"data.name", "shapes_text(objects=1,shapes=2,noise=0,train=256,validation=64,test=128)", ""},
        {"model.name", "vision_language", ""},
        {"model.width", "16", ""},
        {"model.heads", "2", ""},
        {"model.depth", "1", ""},
        {"model.parser_depth", "1", ""},
        {"model.mlm", "1", ""},
        {"model.itm", "1", ""},
        {"model.mfr", "1", ""},
        {"train.epochs", "2", ""},
        {"train.batch", "32", ""}};
    given.insert(given.end(), more.begin(), more.end());
    return run::resolve(given);
  }

  Ended train_in(
      const std::string& name, const run::Settings& what, Folder::Open how = Folder::Open::fresh,
      std::function<bool()> interrupted = [] { return false; }) const {
    RunOptions options;
    options.out = root_ / name;
    options.open = how;
    options.quiet = true;
    options.interrupted = std::move(interrupted);
    Group alone;
    return train(what, options, alone);
  }

  nlohmann::json result_of(const std::string& name) const {
    return nlohmann::json::parse(contents(root_ / name / "result.json"));
  }

  const fs::path root_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(ImageTextTraining, InterruptedAnywhereAndResumedGivesTheSameBits) {
  const run::Settings what = settings();
  ASSERT_EQ(train_in("whole", what), Ended::finished);
  Ended ended = Ended::interrupted;
  for (int start = 0; ended == Ended::interrupted; ++start) {
    int updates = 0;
    ended =
        train_in("cut", what, start == 0 ? Folder::Open::fresh : Folder::Open::resume, [&] { return ++updates >= 5; });
  }
  for (const char* file : {"checkpoints/best.safetensors", "predictions.csv"})
    EXPECT_EQ(contents(root_ / "cut" / file), contents(root_ / "whole" / file)) << file;
  EXPECT_EQ(result_of("cut")["pretraining"], result_of("whole")["pretraining"]);
}

TEST_F(ImageTextTraining, Learns) {
  train_in("run", settings({{"train.epochs", "25", ""}, {"train.lr", "0.004", ""}}));
  const nlohmann::json result = result_of("run");
  EXPECT_GE(result["test"]["accuracy"].get<double>(), 0.9) << "chance is 0.25";
  const nlohmann::json& features = result["pretraining"]["masked_features"];
  EXPECT_LT(features["error"].get<double>(), features["floor"].get<double>());
}

TEST_F(ImageTextTraining, LeavesScoresOfItsObjectives) {
  train_in("run", settings({{"model.attention", "softmax+bn(beta=0.6)", ""}}));
  const nlohmann::json result = result_of("run");
  EXPECT_EQ(result["model"], "vision_language");
  EXPECT_EQ(result["data"]["kind"], "image_text");
  EXPECT_EQ(result["attention"], nlohmann::json::array({"softmax+bn(beta=0.6)"}));
  EXPECT_GT(result["multiply_adds"].get<double>(), 0);
  const nlohmann::json& scores = result["pretraining"];
  EXPECT_EQ(scores["matching"]["count"], 128);
  EXPECT_EQ(scores["matching"]["floor"], 0.5);
  EXPECT_GT(scores["masked_words"]["count"].get<int>(), 20);
  // Two words never change, one of 2 and two of 4.
  EXPECT_NEAR(scores["masked_words"]["floor"].get<double>(), (2 + 0.5 + 0.25 + 0.25) / 5, 0.2);
  EXPECT_GT(scores["masked_features"]["floor"].get<double>(), 0);
  // The same again from the file, and other draws from another seed.
  const Trained trained = read_trained(root_ / "run");
  const data::DatasetPtr test = data::generated(settings().data.name).test();
  const auto again = pretraining_scores(trained, test);
  ASSERT_TRUE(again);
  EXPECT_EQ(nlohmann::json::parse(to_json(*again).dump()), scores);
  EXPECT_NE(pretraining_scores(trained, test, 1)->words->count, again->words->count);
  train_in("plain", settings({{"model.mlm", "0", ""}, {"model.itm", "0", ""}, {"model.mfr", "0", ""}}));
  EXPECT_FALSE(result_of("plain").contains("pretraining"));
}

// The probe tells kinds of tokens apart, and the flow between them is computed from it.
TEST_F(ImageTextTraining, IsLookedIntoByImf) {
  train_in("run", settings());
  const Trained trained = read_trained(root_ / "run");
  const data::DatasetPtr test = data::generated(settings().data.name).test();
  analysis::ProbedModel model;
  model.name = "run";
  model.probes.push_back(probe(trained, test, {0, 1, 2}, "test"));
  const analysis::Probe& seen = model.probes[0];
  ASSERT_EQ(seen.kinds.shape(), (std::array<Index, 2>{3, 5 + 2 + 16}));
  analysis::Options options;
  const auto json = nlohmann::json::parse(analysis::find("imf").on_model(model, options).json);
  EXPECT_EQ(json["samples"], 3);
  EXPECT_NEAR(json["chance"].get<double>(), 2.0 * 5 * 16 / (21 * 21), 1e-12);
  // The slow formula, from the weights of the layer.
  const auto& weights = seen.layers.at(0).weights;
  double mean = 0;
  for (Index b = 0; b < 3; ++b) {
    double crossing = 0, all = 0;
    for (Index h = 0; h < 2; ++h)
      for (Index i = 0; i < 23; ++i)
        for (Index j = 0; j < 23; ++j) {
          const double from = seen.kinds(b, i), to = seen.kinds(b, j);
          if (from == 0 || to == 0) continue;
          all += weights(b, h, i, j);
          if (from != to) crossing += weights(b, h, i, j);
        }
    mean += crossing / all / 3;
  }
  EXPECT_NEAR(json["flows"]["layer"][0][0].get<double>(), mean, 1e-10);
  EXPECT_EQ(json["heads"][0].size(), 2U);
}

TEST_F(ImageTextTraining, RefusesModelsAndSettingsOfOtherData) {
  const auto message = [&](const std::vector<run::Given>& more) -> std::string {
    try {
      train_in("bad", settings(more));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({{"model.name", "vision_transformer", ""}}), testing::HasSubstr("does not take"));
  EXPECT_THAT(message({{"train.mixup", "0.2", ""}}), testing::HasSubstr("mixup"));
  EXPECT_THAT(message({{"model.parser_depth", "0", ""}}), testing::HasSubstr("which has no layers"));
}

}  // namespace
}  // namespace saddle::train
