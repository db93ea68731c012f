#include "saddle/experiment/experiment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saddle/base/error.hpp"

namespace saddle::experiment {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

const std::string head = "title = 'T'\nquestion = 'Q'\nsections = ['accuracy', 'cost']\n";
const std::string part =
    "[[part]]\nname = 'a'\ntitle = 'A'\ndata = ['X']\nattentions = ['softmax', 'softmax+bn(beta=*)']\n"
    "choices = [0.2, 1]\nprotocols = ['honest', 'paper']\nseeds = 3\n"
    "settings = { train.epochs = 7, model.width = 16 }\npaper = { train.evaluate_every = 2 }\n";

TEST(Experiment, IsReadFromToml) {
  const Experiment e = read_experiment(
      head + part + "[[published]]\nname = 'N'\nsource = 'S'\nattention = 'softmax'\naccuracy = { X = 12.5 }\n",
      "e.toml");
  EXPECT_EQ(e.name, "e");
  EXPECT_THAT(e.sections, ElementsAre(Section::accuracy, Section::cost));
  ASSERT_EQ(e.parts.size(), 1U);
  EXPECT_EQ(e.parts[0].folder, "e/a");
  EXPECT_THAT(e.parts[0].choices, ElementsAre("0.2", "1"));
  EXPECT_THAT(e.parts[0].settings, ElementsAre(Pair("model.width", "16"), Pair("train.epochs", "7")));
  EXPECT_THAT(e.parts[0].paper_settings, ElementsAre(Pair("train.evaluate_every", "2")));
  EXPECT_EQ(e.parts[0].seeds, 3);
  ASSERT_EQ(e.published.size(), 1U);
  EXPECT_EQ(e.published[0].accuracy, 12.5);
}

TEST(Experiment, APartCanTakeTheChoiceOfAnother) {
  std::string second = part;
  second.replace(second.find("'a'"), 3, "'b'").replace(second.find("[0.2, 1]"), 8, "'a'");
  std::string third = second;
  third.replace(third.find("'b'"), 3, "'c'").replace(third.find("choices = 'a'"), 13, "choices = 'b'");
  const Experiment e = read_experiment(head + part + second + third, "e.toml");
  EXPECT_EQ(chooser_of(e.parts[0]).name, "a");
  EXPECT_EQ(chooser_of(e.parts[1]).name, "a");
  EXPECT_EQ(chooser_of(e.parts[2]).name, "a");  // who chose for 'b'
  EXPECT_THAT(e.parts[2].choices, ElementsAre("0.2", "1"));
}

TEST(Experiment, MistakesAreNamedWithTheirLine) {
  const auto says = [](const std::string& text, const std::string& expected) {
    try {
      read_experiment(text, "e.toml");
      ADD_FAILURE() << "accepted: " << text;
    } catch (const DataError& error) {
      EXPECT_THAT(std::string(error.what()) + " " + error.hint(), HasSubstr(expected)) << text;
    }
  };
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = head + part;
    return text.replace(text.find(from), from.size(), to);
  };
  says("title = ", "e.toml:1");
  says("title = 'T'\n", "'question' is missing");
  says(head, "'part' is missing");
  says(with("'cost'", "'price'"), "e.toml:3");
  says(with("seeds = 3", "seeds = 0"), "at least 1");
  says(with("seeds = 3", "seedz = 3"), "did you mean 'seeds'");
  says(with("train.epochs = 7, ", ""), "train.epochs or train.steps");
  says(with("train.epochs", "train.epoch"), "did you mean 'train.epochs'");
  says(with("'paper'", "'leaky'"), "there is no protocol 'leaky'");
  says(with("softmax+bn", "softmax+bm"), "bm");
  says(with("'softmax'", "'softmax / sofmax'"), "sofmax");
  says(with("choices = [0.2, 1]\n", ""), "no 'choices'");
  says(with("choices = [0.2, 1]", "choices = 'z'"), "there is none above");
  says(head + part + "[[part]]\nname = 'b'\ntitle = 'B'\ndata = ['X']\nattentions = ['softmax']\nchoices = 'z'\n",
       "name of a part above, found 'z' there are a");
  says(head + part + part, "two parts 'a'");
  says(head + "[[part]]\nof = 'uea/nothing'\n", "there is no part 'uea/nothing'");
}

TEST(Experiment, APartCanBeMadeOfRunsOfAnother) {
  const Experiment e = read_experiment(
      head +
          "[[part]]\nof = 'uea/d64'\nname = 'b'\ndata = ['ERing']\nattentions = ['softmax', 'softmax+bn(beta=0.3)']\n"
          "seeds = 2\n",
      "e.toml");
  EXPECT_EQ(e.parts[0].name, "b");
  EXPECT_EQ(e.parts[0].folder, "uea/d64");
  EXPECT_THAT(e.parts[0].data, ElementsAre("ERing"));
  EXPECT_EQ(e.parts[0].seeds, 2);
  EXPECT_THROW(read_experiment(head + "[[part]]\nof = 'uea/d64'\ndata = ['Mars']\n", "e.toml"), DataError);
}

TEST(Experiment, LayersMayHaveAttentionsOfTheirOwn) {
  const Experiment e =
      read_experiment(head + "[[part]]\nof = 'uea/d64'\nattentions = ['softmax', 'softmax+sh / softmax']\n", "e.toml");
  EXPECT_EQ(e.parts[0].attentions[1], "softmax+sh / softmax");
}

TEST(Experiment, ThoseThatComeWithTheProgramAreSound) {
  EXPECT_THAT(experiment_names(), ElementsAre("beta", "efficiency", "factors", "fashion", "lra", "redundancy", "uea"));
  for (const std::string& name : experiment_names()) EXPECT_EQ(find_experiment(name).name, name);
  EXPECT_THROW(find_experiment("uae"), InvalidArgument);
}

TEST(Experiment, EveryStarIsReplaced) { EXPECT_EQ(with_choice("a(*)+b(*)", "0.5"), "a(0.5)+b(0.5)"); }

}  // namespace
}  // namespace saddle::experiment
