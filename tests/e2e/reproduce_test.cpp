// saddle reproduce as a program: from an experiment's file to its page, stopped and gone on with, within a budget.
#include <gmock/gmock.h>

#include "process.hpp"

namespace saddle::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class Reproduce : public CommandLine {
 protected:
  void SetUp() override {
    CommandLine::SetUp();
    if (!has_training()) GTEST_SKIP() << "this build has no saddle-torch: configure with -DSADDLE_TORCH=ON";
    write_file(folder / "work/mine.toml",
               "title = \"Mine\"\nquestion = \"Which?\"\nsections = [\"accuracy\", \"choice\", \"distance\"]\n"
               "[[part]]\nname = \"p\"\ntitle = \"P\"\ndata = [\"examples/data/waves\"]\n"
               "attentions = [\"softmax\", \"softmax+bn(beta=*)\"]\nchoices = [0.5, 1]\n"
               "protocols = [\"honest\", \"paper\"]\nseeds = 2\n"
               "settings = { model.width = 16, model.heads = 2, train.epochs = 4, train.inspect = false }\n");
  }
  std::string file(const std::string& name) const { return read_file(folder / "work" / name); }
};

TEST_F(Reproduce, FromAFileToItsPage) {
  const auto document = json("saddle reproduce mine.toml --out r --json");
  ASSERT_EQ(document["cells"].size(), 4U);  // two attentions, two protocols
  for (const auto& cell : document["cells"]) EXPECT_EQ(cell["seeds"], 2);
  const auto raw = nlohmann::json::parse(file("r/results/mine.json"));
  EXPECT_EQ(raw["runs"].size(), 8U);
  ASSERT_EQ(raw["choices"].size(), 2U);
  EXPECT_NE(raw["choices"][0]["chosen"], raw["choices"][1]["chosen"]);
  EXPECT_EQ(raw["floors"].size(), 3U);
  const std::string page = file("r/results/mine.md");
  EXPECT_THAT(page, HasSubstr("paper protocol"));
  EXPECT_THAT(page, HasSubstr("rocket-1k"));
  EXPECT_TRUE(fs::exists(folder / "work/r/results/mine-p-honest.svg"));

  // Again: nothing is trained, the bytes are the same; published figures are compared with.
  const Result again = sh("saddle reproduce mine.toml --out r");
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.err, Not(HasSubstr("begun")));
  EXPECT_EQ(file("r/results/mine.md"), page);
  ASSERT_EQ(sh("saddle reproduce mine.toml --out r --no-train --published committed --publish").code, 0);
  EXPECT_EQ(file("committed/mine.md"), page);

  // A sample of the cells, trained elsewhere, has the published figures to the bit.
  const auto sample = json(
      "saddle reproduce mine.toml --out elsewhere --published committed --attention softmax --protocol paper "
      "--seeds 1 --json");
  ASSERT_EQ(sample["cells"].size(), 1U);
  EXPECT_NEAR(sample["cells"][0]["published"], sample["cells"][0]["accuracy"].get<double>(), 1e-5);
}

TEST_F(Reproduce, CommittedResultsAreExtended) {
  ASSERT_EQ(sh("saddle reproduce mine.toml --out r --seeds 0 --published committed --publish").code, 0);
  ASSERT_EQ(nlohmann::json::parse(file("committed/mine.json"))["runs"].size(), 4U);
  fs::remove_all(folder / "work/r");  // as on another machine
  // Nothing is left to train for the first seed, not even to choose a value.
  const Result done = sh("saddle reproduce mine.toml --out r --seeds 0 --published committed --extend");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_FALSE(fs::exists(folder / "work/r/mine"));
  EXPECT_EQ(nlohmann::json::parse(file("r/results/mine.json"))["choices"].size(), 2U);
  ASSERT_EQ(sh("saddle reproduce mine.toml --out r --published committed --extend --publish").code, 0);
  EXPECT_EQ(nlohmann::json::parse(file("committed/mine.json"))["runs"].size(), 8U);
  EXPECT_TRUE(fs::exists(folder / "work/r/mine/p-paper"));
  EXPECT_EQ(sh("find r/mine -path '*/0/result.json'").out, "");  // the first seed was not trained again

  // Without the committed choice nobody knows which runs count: that is said.
  const Result unknown = sh("saddle reproduce mine.toml --out r --no-train --published committed");
  EXPECT_EQ(unknown.code, 0);
  EXPECT_THAT(unknown.err, HasSubstr("no value has been chosen for 'softmax+bn(beta=*)'"));
  EXPECT_THAT(unknown.err, HasSubstr("--extend takes the committed choice"));

  // Another experiment of the same runs takes them, too.
  write_file(folder / "work/other.toml",
             "title = \"Other\"\nquestion = \"Which?\"\nsections = [\"distance\"]\n"
             "[[part]]\nof = \"mine.toml/p\"\nname = \"q\"\n");
  const auto other = json("saddle reproduce other.toml --out s --published committed --extend --no-train --json");
  ASSERT_EQ(other["cells"].size(), 4U);
  for (const auto& cell : other["cells"]) EXPECT_EQ(cell["part"], "q");
}

TEST_F(Reproduce, APartTakesTheChoiceOfAnother) {
  write_file(folder / "work/two.toml",
             file("mine.toml") +
                 "[[part]]\nname = \"q\"\ntitle = \"Q\"\ndata = [\"examples/data/waves\"]\n"
                 "attentions = [\"softmax+bn(beta=*)\"]\nchoices = \"p\"\nseeds = 1\n"
                 "settings = { model.width = 8, model.heads = 2, train.epochs = 2, train.inspect = false }\n");
  const auto document = json("saddle reproduce two.toml --part q --out r --json");
  ASSERT_EQ(document["cells"].size(), 1U);
  EXPECT_EQ(sh("find r -name result.json | wc -l").out, "3\n");  // two of the other part to choose, one of its own
  EXPECT_THAT(file("r/results/two.md"), HasSubstr("Q takes what was chosen for P."));
  const auto raw = nlohmann::json::parse(file("r/results/two.json"));
  ASSERT_EQ(raw["choices"].size(), 2U);
  EXPECT_EQ(raw["choices"][0]["part"], "p");
}

TEST_F(Reproduce, GoesOnWhenItsProgramIsReplaced) {
  ASSERT_EQ(sh("mkdir own && cp \"$(command -v saddle)\" own/saddle").code, 0);
  write_file(folder / "work/own/saddle-torch",
             "#!/bin/sh\nown=$(dirname \"$0\")\ncp \"$own/saddle\" \"$own/new\" && mv \"$own/new\" \"$own/saddle\"\n"
             "exec \"$(command -v saddle-torch)\" \"$@\"\n");
  const Result done =
      sh("chmod +x own/saddle-torch && own/saddle reproduce mine.toml --protocol honest --seeds 0 --out r");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(sh("find r -name result.json | wc -l").out, "3\n");
}

TEST_F(Reproduce, ABudgetCutsSeedsAndEpochsAndSaysSo) {
  ASSERT_EQ(sh("saddle reproduce mine.toml --out r").code, 0);
  // As if every run had taken 1000 s: three of them, 1300 s each with what goes around training, do not fit.
  ASSERT_EQ(sh("sed -i 's/\"train_seconds\":[0-9.e-]*/\"train_seconds\":1000/' r/results/mine.json").code, 0);
  const Result cut = sh("saddle reproduce mine.toml --out r --budget 2000s --protocol honest");
  EXPECT_EQ(cut.code, 0) << cut.err;
  EXPECT_THAT(cut.err, HasSubstr("1 seed and 51 % of the epochs for 2000s"));
  EXPECT_THAT(file("r/results/mine.md"), HasSubstr("cut to 2 epochs"));
  const Result tried = sh("saddle reproduce mine.toml --out tried --budget 600s --protocol honest --seeds 0..1");
  EXPECT_EQ(tried.code, 0) << tried.err;
  EXPECT_THAT(tried.err, HasSubstr("2 seeds and 100 % of the epochs for 600s"))
      << "short runs told what whole ones take";
  EXPECT_THAT(file("tried/results/mine.md"), Not(HasSubstr("cut to")));
  const Result over = sh("saddle reproduce mine.toml --out other --budget 0.01s");
  EXPECT_EQ(over.code, 0) << over.err;
  EXPECT_THAT(over.err, HasSubstr("the time is over"));
  EXPECT_EQ(sh("saddle reproduce mine.toml --out r --budget soon").code, 2);
}

TEST_F(Reproduce, WrongInputIsExplained) {
  const auto says = [&](const std::string& line, int code, const std::string& text) {
    const Result wrong = sh(line);
    EXPECT_EQ(wrong.code, code) << line << wrong.err;
    EXPECT_THAT(wrong.err, HasSubstr(text)) << line;
  };
  says("saddle reproduce uae", 2, "did you mean 'uea'");
  says("saddle reproduce nothing.toml", 1, "nothing.toml");
  says("saddle reproduce mine.toml --part q", 2, "it has p");
  says("saddle reproduce mine.toml --attention softmaxx", 2, "did you mean 'softmax'");
  says("saddle reproduce mine.toml --no-train --out empty", 2, "no finished run");
  write_file(folder / "work/bad.toml", "title = 3\n");
  says("saddle reproduce bad.toml", 3, "bad.toml:1");
}

}  // namespace
}  // namespace saddle::e2e
