#include "saddle/data/ts.hpp"

#include "saddle/data/find.hpp"
#include "saddle/data/scratch_test.hpp"

namespace saddle::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

DatasetPtr read(const std::string& text, const TsOptions& options = {}) {
  return read_ts(contents_of(text, "t.ts"), {.name = "t", .split = "train"}, options);
}

const std::string head = "@problemName t\n@classLabel true a b\n@data\n";  // series start in line 4

TEST(Ts, StepsOfAllChannelsFollowEachOther) {
  const DatasetPtr data = read(head + "1,2,3:10,20,30:b\n4,5:40,50:a\n");
  const Description& description = data->description();
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(description.kind, Kind::series);
  EXPECT_EQ(description.channels, 2);
  EXPECT_EQ(description.min_length, 2);
  EXPECT_EQ(description.max_length, 3);
  EXPECT_THAT(description.classes, ElementsAre("a", "b"));
  EXPECT_THAT(description.files, ElementsAre("t.ts"));
  EXPECT_THAT(sample_of(*data, 0).values, ElementsAre(1, 10, 2, 20, 3, 30));
  EXPECT_EQ(sample_of(*data, 0).label, 1);
  EXPECT_THAT(sample_of(*data, 1).values, ElementsAre(4, 40, 5, 50));
  EXPECT_EQ(sample_of(*data, 1).length, 2);
}

TEST(Ts, FlagsAreReadInAnyCaseAndOrderWithCommentsAndBothLineEnds) {
  const DatasetPtr data = read(
      "\xef\xbb\xbf# a comment\r\n\r\n@SERIESLENGTH 2\r\n  @Dimension\t1\r\n@classlabel TRUE x y\r\n@EqualLength "
      "True\r\n"
      "@timestamps False\r\n@MISSING false\r\n@univariate true\r\n# another\r\n@DATA\r\n\r\n# and one more\r\n"
      " 1e-5 , +3 : x \r\n.5,-2.:y");
  EXPECT_EQ(data->size(), 2);
  EXPECT_THAT(sample_of(*data, 0).values, ElementsAre(1e-5F, 3));
  EXPECT_THAT(sample_of(*data, 1).values, ElementsAre(0.5F, -2));
}

TEST(Ts, AllFlagsMayBeMissing) {
  const DatasetPtr data = read("@data\n1,2:10\n3:9\n4:10\n");
  EXPECT_THAT(data->description().classes, ElementsAre("10", "9"));  // sorted as strings
  EXPECT_EQ(data->label(0), 0);
  EXPECT_EQ(data->label(1), 1);
  EXPECT_EQ(data->label(2), 0);
}

TEST(Ts, LabelsAreThoseOfTheHeaderSorted) {
  const DatasetPtr data = read("@classLabel true walk 2 Run 10\n@data\n1:Run\n1:2\n1:walk\n1:WALK\n");
  EXPECT_THAT(data->description().classes, ElementsAre("10", "2", "Run", "walk"));
  EXPECT_EQ(data->label(0), 2);
  EXPECT_EQ(data->label(1), 1);
  EXPECT_EQ(data->label(3), 3);  // no other label differs only in case
}

TEST(Ts, MissingValuesFollowThePolicy) {
  const std::string text = head + "1,?,3:NaN,5,nan:a\n";
  TsOptions options;
  DatasetPtr data = read(text, options);
  EXPECT_THAT(sample_of(*data, 0).values, ElementsAre(1, 5, 2, 5, 3, 5));
  EXPECT_EQ(data->description().missing, 3);
  EXPECT_THAT(data->description().notes, ElementsAre("3 missing values were interpolated"));
  options.missing = Missing::zero;
  data = read(text, options);
  EXPECT_THAT(sample_of(*data, 0).values, ElementsAre(1, 0, 0, 5, 3, 0));
  options.missing = Missing::refuse;
  expect_data_error([&] { read(text, options); }, 4, 3, "found a missing value");
}

TEST(Ts, WithoutLabelsItCanOnlyBePredicted) {
  const std::string text = "@classLabel false\n@data\n1,2:3,4\n";
  expect_data_error([&] { read(text); }, 1, 1, "no class labels");
  TsOptions options;
  options.labels_required = false;
  options.classes = std::vector<std::string>{"a", "b"};
  const DatasetPtr data = read(text, options);
  EXPECT_EQ(data->description().channels, 2);
  EXPECT_EQ(data->label(0), -1);
  EXPECT_THAT(data->description().classes, ElementsAre("a", "b"));
  // "?" is no label where none is needed, and a wrong one where it is.
  EXPECT_EQ(read(head + "1:?\n", options)->label(0), -1);
  expect_data_error([&] { read(head + "1:?\n"); }, 4, 3, "the class label '?'");
}

TEST(Ts, OtherSplitsHaveTheClassesAndChannelsOfTheTrainingFile) {
  TsOptions options;
  options.classes = std::vector<std::string>{"a", "b", "c"};
  options.channels = 1;
  EXPECT_EQ(read("@classLabel true c b\n@data\n1:c\n", options)->label(0), 2);
  expect_data_error([&] { read("@data\n1:c\n1:  d\n", options); }, 3, 5,
                    "'d' is not one of the training file's: a, b, c");
  expect_data_error([&] { read("@data\n1:2:c\n", options); }, 2, 1, "found 2 channels, the training file has 1");
}

TEST(Ts, WhatTheFormatHasAndWeHaveNotIsRefusedWithAReason) {
  try {
    read("@timeStamps true\n@data\n(0,1),(1,2):a\n");
    ADD_FAILURE();
  } catch (const NotSupported& error) {
    EXPECT_THAT(error.what(), HasSubstr("t.ts:1: @timeStamps true"));
    EXPECT_THAT(error.refusals(), ElementsAre(HasSubstr("equally spaced")));
  }
  EXPECT_THROW(read("@targetLabel true\n@data\n1:0.5\n"), NotSupported);
  EXPECT_EQ(read("@targetLabel false\n@data\n1:x\n")->size(), 1);
  expect_data_error([] { read("@data\n(0,1),(1,2):a\n"); }, 2, 1, "found '(0'");
}

TEST(Ts, ErrorsNameTheirPlace) {
  const auto fails = [](const std::string& text, long line, long column, const std::string& message) {
    expect_data_error([&] { read(text); }, line, column, message);
  };
  fails("", 0, 0, "the file is empty");
  fails("# only\n", 0, 0, "no line @data");
  fails("@data\n# nothing\n\n", 3, 0, "no series");
  fails("1,2:a\n", 1, 1, "series stand after the line @data");
  fails("@data 5\n1:a\n", 1, 7, "more than @data");
  fails("@univariate maybe\n@data\n", 1, 13, "expected true or false, found 'maybe'");
  fails("@missing\n@data\n", 1, 1, "expected true or false, found ''");
  fails("@dimensions 0\n@data\n", 1, 13, "whole number from 1, found '0'");
  fails("@seriesLength 5x\n@data\n", 1, 15, "found '5x'");
  fails("@missing true\n@missing false\n@data\n", 2, 1, "it was given in line 1");
  fails("@classLabel true a b a\n@data\n", 1, 22, "'a' is listed twice");
  fails("@clasLabel true a\n@data\n", 1, 1, "unknown flag '@clasLabel'");
  fails("@univariate true\n@dimensions 2\n@data\n", 2, 1, "contradicts @univariate true in line 1");

  fails(head + "1,2\n", 4, 1, "found no ':'");
  fails(head + "1,2:\n", 4, 5, "no class label");
  fails(head + "1,2:a b\n", 4, 6, "holds a blank");
  fails(head + "1,2:c\n", 4, 5, "'c' is not one of those listed in line 2: a, b");
  fails(head + ":a\n", 4, 1, "expected a number, ? or NaN, found nothing");
  fails(head + "1,2::a\n", 4, 5, "found nothing");
  fails(head + "1,2,:a\n", 4, 5, "found nothing");
  fails(head + "1,,2:a\n", 4, 3, "found nothing");
  fails(head + "1,x2:a\n", 4, 3, "found 'x2'");
  fails(head + "1,2x:a\n", 4, 4, "expected ',' or ':' after a value, found 'x'");
  fails(head + "1,2 3:a\n", 4, 5, "found '3'");
  fails(head + "1,1e40:a\n", 4, 3, "'1e40' is too large");
  fails(head + "1,-inf:a\n", 4, 3, "too large");
  fails(head + "1,2:3,4,5:a\n", 4, 5, "channel 2 has 3 values, the first channel has 2");
  fails(head + "1:2:a\n\n1:2:3:a\n", 6, 1, "found 3 channels, the series in line 4 has 2");
  fails("@dimensions 3\n@data\n1:2:a\n", 3, 1, "found 2 channels, line 1 says @dimensions 3");
  fails("@univariate true\n@data\n1:2:a\n", 3, 1, "line 1 says @univariate true");
  fails("@equalLength true\n@data\n1,2:a\n1:a\n", 4, 1, "found 1 steps, the series in line 3 has 2");
  fails("@equalLength true\n@seriesLength 3\n@data\n1,2:a\n", 4, 1, "line 2 says @seriesLength 3");
}

TEST(Ts, UnequalLengthsAreWhatTheyAre) {
  EXPECT_EQ(read("@equalLength false\n@seriesLength 9\n@data\n1,2:a\n1:a\n")->description().min_length, 1);
  EXPECT_EQ(read("@data\n1,2:a\n1:a\n")->description().max_length, 2);
}

TEST(Ts, ForeignFlagsAreNoted) {
  EXPECT_THAT(read("@sampling 50Hz\n@data\n1:a\n")->description().notes,
              ElementsAre("line 1: the flag @sampling is not used"));
}

TEST(Ts, ProblemsAreCollectedOnRequest) {
  std::vector<DataError> problems;
  TsOptions options;
  options.problems = &problems;
  read(head + "1:a\nx:a\n1:c\n1:b\n", options);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].line(), 5);
  EXPECT_EQ(problems[1].line(), 6);
  problems.clear();
  std::string many = head;
  for (int i = 0; i < 100; ++i) many += "x:a\n";
  read(many, options);
  EXPECT_EQ(problems.size(), 20u);
}

TEST(Ts, FromTheDiskItIsTheSameAsInMemory) {
  const Scratch scratch;
  std::string text = head;
  for (int i = 0; i < 500; ++i) {
    std::string values = std::to_string(i);
    for (int t = 0; t < i % 17; ++t) values += t == 3 ? ",?" : "," + std::to_string(t * 0.37 - i);
    text += values + ":" + values + (i % 3 == 0 ? ":a\r\n" : ":b\n");
  }
  const std::string plain = scratch.write("x.ts", text), packed = scratch.write_packed("x.ts.gz", text);
  const DatasetPtr memory = read(text);
  for (const std::string& file : {plain, packed}) {
    const ContentsPtr contents = read_contents(file, 0);
    ASSERT_TRUE(contents->on_disk());
    expect_same(*memory, *read_ts(contents, {}, {}));
  }
}

}  // namespace
}  // namespace saddle::data
