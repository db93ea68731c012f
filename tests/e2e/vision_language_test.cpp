// Images with texts as a user meets them: made, written, trained on, compared, looked into.
#include <gmock/gmock.h>

#include "process.hpp"

namespace saddle::e2e {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class VisionLanguage : public CommandLine {
 protected:
  void SetUp() override {
    CommandLine::SetUp();
    if (!has_training()) GTEST_SKIP() << "this build has no saddle-torch: configure with -DSADDLE_TORCH=ON";
    ASSERT_EQ(sh("saddle data generate shapes_text --out shapes --set train=96 --set validation=32 --set test=40").code,
              0);
  }
  const std::string small_ =
      "--epochs 1 --set model.width=16 --set model.heads=2 --set model.mlm=1 --set model.itm=1 --set model.mfr=1 ";
  Result train(const std::string& rest) const { return sh("saddle train --data shapes " + small_ + rest); }
};

TEST_F(VisionLanguage, DataAreWrittenAndReadAgain) {
  EXPECT_TRUE(fs::exists(folder / "work/shapes/shapes_text_train.safetensors"));
  const Result shown = sh("saddle data show shapes");
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("16 x 16 pixels, 3 channels"));
  EXPECT_THAT(shown.out, HasSubstr("colour of"));
  EXPECT_EQ(sh("saddle data check shapes/shapes_text_train.safetensors").code, 0);
  for (const auto& each : json("saddle data baseline shapes --json")["baselines"])
    EXPECT_LT(each["accuracy"].get<double>(), 0.5) << "one modality tells nothing: " << each.dump();
}

TEST_F(VisionLanguage, TrainsEvaluatesPredictsAndResumes) {
  const Result trained = train("--attention 'softmax+bn(beta=0.6)' --out run");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("masked words: accuracy"));
  EXPECT_THAT(trained.out, HasSubstr("does the text match: accuracy"));
  EXPECT_THAT(trained.out, HasSubstr("masked features: mean squared error"));
  const nlohmann::json result = nlohmann::json::parse(read_file(folder / "work/run/result.json"));
  EXPECT_EQ(result["data"]["train"], 96);
  const nlohmann::json eval = json("saddle eval run --json");
  EXPECT_EQ(eval["accuracy"], result["test"]["accuracy"]);
  EXPECT_EQ(eval["pretraining"], result["pretraining"]);
  EXPECT_THAT(sh("saddle eval run").out, HasSubstr("masked words: accuracy"));
  const nlohmann::json predicted = json("saddle predict run shapes/shapes_text_test.safetensors --json");
  EXPECT_EQ(predicted["samples"].size(), 40U);
  EXPECT_THAT(predicted["classes"], testing::ElementsAre("blue", "green", "red", "yellow"));
  EXPECT_EQ(sh("saddle train --resume --out run --epochs 2 --allow train.epochs").code, 0);
  EXPECT_EQ(sh("saddle report run --out page.html").code, 0);
}

TEST_F(VisionLanguage, FlowBetweenModalitiesIsShown) {
  ASSERT_EQ(train("--set model.depth=3 --out run").code, 0);
  const nlohmann::json flow = json("saddle analyze imf run --samples 8 --json")["result"];
  EXPECT_EQ(flow["samples"], 8);
  EXPECT_EQ(flow["layers"], 3);
  for (const char* kind : {"layer", "residual", "rollout"})
    for (const auto& layer : flow["flows"][kind])
      for (const auto& share : layer) EXPECT_TRUE(share.get<double>() > 0 && share.get<double>() < 1);
  const Result page = sh("saddle analyze imf run --html flow.html");
  EXPECT_EQ(page.code, 0) << page.err;
  EXPECT_THAT(page.out, HasSubstr("times what uniform attention would"));
  EXPECT_THAT(read_file(folder / "work/flow.html"), HasSubstr("Inter-modality flow"));
  ASSERT_EQ(sh("saddle train --data examples/data/waves --epochs 1 --out waves").code, 0);
  const Result other = sh("saddle analyze imf waves");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("does not have tokens of language and of vision"));
}

TEST_F(VisionLanguage, AttentionsAreCompared) {
  const Result compared =
      sh("saddle compare --attention softmax --attention cat --seeds 0,1 --data shapes --out both -- " + small_);
  EXPECT_EQ(compared.code, 0) << compared.err;
  EXPECT_THAT(compared.out, HasSubstr("cat"));
}

}  // namespace
}  // namespace saddle::e2e
