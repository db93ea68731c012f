#include "saddle/run/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saddle/base/error.hpp"

namespace saddle::run {
namespace {

using testing::HasSubstr;

template <class Exception, class Body>
Exception thrown_by(Body&& body) {
  try {
    body();
  } catch (const Exception& error) {
    return error;
  }
  throw std::runtime_error("nothing of the expected type was thrown");
}

TEST(Settings, LaterValuesGoBeforeEarlierOnes) {
  const Settings settings = resolve({{"train.lr", "1e-2", "a.toml:3"},
                                     {"train.lr", "3e-4", "flag"},
                                     {"model.attention", "softmax+bn", "flag"},
                                     {"model.depth", "4", "x"}});
  EXPECT_EQ(settings.train.lr, 3e-4);
  EXPECT_EQ(settings.origins.at("train.lr"), "flag");
  EXPECT_EQ(settings.model_options.at("attention"), "softmax+bn");
  EXPECT_EQ(settings.model_options.at("depth"), "4");
  EXPECT_EQ(settings.train.epochs, 100);
}

TEST(Settings, TimesAndSharesHaveUnits) {
  EXPECT_EQ(resolve({{"train.budget", "30m", ""}}).train.budget, 1800);
  EXPECT_EQ(resolve({{"train.budget", "2h", ""}}).train.budget, 7200);
  EXPECT_EQ(resolve({{"data.validation", "10%", ""}}).data.validation, 0.1);
  EXPECT_THROW(resolve({{"train.lr", "5m", ""}}), InvalidArgument);
}

TEST(Settings, WhatIsWrongIsNamedWithItsOrigin) {
  const auto unknown = thrown_by<InvalidArgument>([] { resolve({{"train.epoch", "3", "flag --set"}}); });
  EXPECT_THAT(unknown.what(), HasSubstr("'train.epoch' (flag --set)"));
  EXPECT_THAT(unknown.hint(), HasSubstr("train.epochs"));
  EXPECT_THAT(thrown_by<InvalidArgument>([] { resolve({{"data.lr", "3", ""}}); }).hint(), HasSubstr("train.lr"));
  EXPECT_THAT(thrown_by<InvalidArgument>([] {
                resolve({{"train.epochs", "many", "flag"}});
              }).what(),
              HasSubstr("a whole number, found 'many'"));
  EXPECT_THAT(thrown_by<InvalidArgument>([] {
                resolve({{"train.epochs", "0", "flag"}});
              }).what(),
              HasSubstr("at least 1, found 0"));
  EXPECT_THAT(thrown_by<InvalidArgument>([] {
                resolve({{"train.label_smoothing", "1.5", ""}});
              }).what(),
              HasSubstr("0 to 0.99"));
  EXPECT_THAT(thrown_by<InvalidArgument>([] { resolve({{"train.lr", "inf", ""}}); }).what(), HasSubstr("a number"));
  const auto choice = thrown_by<InvalidArgument>([] { resolve({{"train.optimizer", "adamv", ""}}); });
  EXPECT_THAT(choice.what(), HasSubstr("one of radam, adamw, adam"));
  EXPECT_THAT(choice.hint(), HasSubstr("adam"));
}

// The default of some choices is none of them: it is taken, and has no name to list.
TEST(Settings, TheEmptyChoiceIsNotListed) {
  EXPECT_EQ(resolve({{"table.predict", "", ""}}).table.predict, "");
  const auto choice = thrown_by<InvalidArgument>([] { resolve({{"table.predict", "foo", "flag"}}); });
  EXPECT_THAT(choice.what(), HasSubstr("takes one of classes, numbers, found 'foo'"));
  int seen = 0;
  for (const SettingName& name : setting_names()) {
    EXPECT_THAT(name.choices, testing::Not(testing::Contains(""))) << name.name;
    seen += name.choices.empty() ? 0 : 1;
  }
  EXPECT_GT(seen, 3);
}

TEST(Settings, FilesGiveLineAndColumn) {
  const auto given = parse_settings(
      "attention = [\"softmax\", \"linear\"]\n[train]\nlr = 0.5\nepochs = 7\n[model]\nname = \"mvts\"\nqkv_bias = "
      "false\n",
      "a.toml");
  const Settings settings = resolve(given);
  EXPECT_EQ(settings.model_options.at("attention"), "softmax,linear");
  EXPECT_EQ(settings.model_options.at("qkv_bias"), "false");
  EXPECT_EQ(settings.model, "mvts");
  EXPECT_EQ(settings.train.lr, 0.5);
  EXPECT_EQ(settings.origins.at("train.epochs"), "a.toml:4");
  const auto wrong = thrown_by<DataError>([] { parse_settings("[train]\nepocs = 3\n", "a.toml"); });
  EXPECT_EQ(wrong.line(), 2);
  EXPECT_THAT(wrong.hint(), HasSubstr("train.epochs"));
  EXPECT_EQ(thrown_by<DataError>([] { parse_settings("[train]\nlr = \n", "a.toml"); }).line(), 2);
  EXPECT_EQ(thrown_by<DataError>([] { parse_settings("[train]\nlr = 1979-05-27\n", "a.toml"); }).line(), 2);
  EXPECT_THROW(parse_settings("[trian]\nlr = 1\n", "a.toml"), DataError);
}

TEST(Settings, PrintedSettingsReadBackEqual) {
  Settings settings = resolve({{"data.name", "a \"quoted\" \\ name.csv", ""},
                               {"train.lr", "0.1", "flag"},
                               {"train.budget", "1e-7", ""},
                               {"model.attention", "softmax+sh(1,2)", ""}});
  settings.model = "mvts";
  const std::string text = to_toml(settings, false);
  const Settings again = resolve(parse_settings(text, "x"));
  EXPECT_EQ(to_toml(again, false), text);
  EXPECT_TRUE(differences(settings, again).empty());
  EXPECT_THAT(to_toml(settings, true), HasSubstr("lr = 0.1  # flag"));
  EXPECT_THAT(to_toml(settings, true), HasSubstr("epochs = 100  # default"));
}

TEST(Settings, DifferencesLeaveOutWhatCannotChangeTheWeights) {
  const Settings before = resolve({{"train.lr", "1", ""}, {"train.threads", "1", ""}});
  Settings now = resolve({{"train.lr", "2", ""}, {"train.threads", "2", ""}, {"model.depth", "3", ""}});
  now.model = "mvts";
  const auto list = differences(before, now);
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0].key, "train.lr");
  EXPECT_EQ(list[0].before, "1");
  EXPECT_EQ(list[0].now, "2");
  EXPECT_EQ(list[1].key, "model.name");
  EXPECT_EQ(list[2].key, "model.depth");
}

TEST(Settings, TheRecipeFillsOnlyWhatWasNotGiven) {
  data::Description images;
  images.kind = data::Kind::image;
  images.rows = images.columns = 28;
  Settings settings = resolve({{"train.batch", "7", "flag"}});
  apply_recipe(settings, images);
  EXPECT_EQ(settings.train.batch, 7);
  EXPECT_EQ(settings.train.optimizer, "adamw");
  EXPECT_EQ(settings.model, "vision_transformer");
  EXPECT_EQ(settings.model_options.at("patch"), "4");
  EXPECT_EQ(settings.origins.at("model.patch"), "recipe for images");
  Settings named = resolve({{"model.name", "deit_tiny_patch16_224", "flag"}});
  apply_recipe(named, images);
  EXPECT_EQ(named.model, "deit_tiny_patch16_224");
  EXPECT_EQ(named.model_options.count("width"), 0U);
}

TEST(Settings, EnvironmentAndAssignments) {
  setenv("SADDLE_TRAIN_WEIGHT_DECAY", "0.25", 1);
  const auto given = settings_of_environment();
  unsetenv("SADDLE_TRAIN_WEIGHT_DECAY");
  ASSERT_EQ(given.size(), 1U);
  EXPECT_EQ(given[0].key, "train.weight_decay");
  EXPECT_EQ(given[0].origin, "environment SADDLE_TRAIN_WEIGHT_DECAY");
  EXPECT_EQ(parse_assignment("model.attention=softmax+sh(1,2)").value, "softmax+sh(1,2)");
  EXPECT_EQ(parse_assignment("attention=linear").key, "model.attention");
  EXPECT_THROW(parse_assignment("lr"), InvalidArgument);
}

}  // namespace
}  // namespace saddle::run
