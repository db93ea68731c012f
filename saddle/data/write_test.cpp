#include "saddle/data/write.hpp"

#include "saddle/data/find.hpp"
#include "saddle/data/generate/generate.hpp"
#include "saddle/data/records.hpp"
#include "saddle/data/scratch_test.hpp"

namespace saddle::data {
namespace {

// Every generator's splits, written and read back by the name of the folder.
TEST(Write, WhatIsWrittenReadsBackTheSame) {
  for (const Generator& generator : generators()) {
    const Scratch scratch;
    std::map<std::string, std::string> settings{{"train", "12"}, {"validation", "5"}, {"test", "7"}};
    if (generator.name == "listops") settings.insert({{"min", "5"}, {"max", "40"}});
    std::erase_if(settings, [&](const auto& setting) {
      return std::none_of(generator.options.begin(), generator.options.end(),
                          [&](const GeneratorOption& option) { return option.name == setting.first; });
    });
    const Task made = generator.make(settings);
    const auto file = [&](const char* split) {
      return scratch.folder / file_name_for(generator.kind, generator.name, split);
    };
    write_dataset(*made.train(), file("train"));
    write_dataset(*made.test(), file("test"));
    if (made.validation) write_dataset(*made.validation(), file("validation"));
    const Task read = find_task(scratch.folder.string());
    EXPECT_EQ(static_cast<bool>(read.validation), static_cast<bool>(made.validation)) << generator.name;
    const auto same = [&](const Dataset& a, const Dataset& b) {
      ASSERT_EQ(a.size(), b.size()) << generator.name;
      for (Index i = 0; i < a.size(); ++i) {
        const Sample x = sample_of(a, i), y = sample_of(b, i);
        EXPECT_EQ(x.values, y.values) << generator.name;
        EXPECT_EQ(x.tokens, y.tokens) << generator.name;
        EXPECT_EQ(a.description().classes.at(static_cast<std::size_t>(x.label)),
                  b.description().classes.at(static_cast<std::size_t>(y.label)))
            << generator.name;
      }
    };
    same(*made.train(), *read.train());
    if (made.validation) same(*made.validation(), *read.validation());
  }
}

TEST(Write, RefusesWhatTheFormatCannotHold) {
  const Scratch scratch;
  const auto series = [](const std::string& label) {
    return series_in_memory({.channels = 1, .classes = {label}}, {1}, {{0, 0, 1, 0}});
  };
  for (const char* label : {"a b", "a,b", "a:b", ""})
    EXPECT_THROW(write_dataset(*series(label), scratch.folder / "x.ts"), InvalidArgument) << label;
  EXPECT_FALSE(std::filesystem::exists(scratch.folder / "x.ts"));
  const DatasetPtr events = records({.kind = Kind::events}, contents_of("", "f"), {}, {});
  EXPECT_THROW(write_dataset(*events, scratch.folder / "x"), NotSupported);
  EXPECT_THROW(static_cast<void>(file_name_for(Kind::pair, "x", "train")), NotSupported);
  const DatasetPtr colour =
      records({.kind = Kind::image, .channels = 3, .rows = 1, .columns = 1}, contents_of("", "f"), {}, {});
  EXPECT_THROW(write_dataset(*colour, scratch.folder / "train-images-idx3-ubyte"), NotSupported);
  EXPECT_THROW(write_dataset(*series("a"), scratch.folder / "no" / "x.ts"), IoError);
}

}  // namespace
}  // namespace saddle::data
