#include "saddle/data/table.hpp"

#include <numeric>

#include "saddle/data/scratch_test.hpp"
#include "saddle/data/split.hpp"

namespace saddle::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

DatasetPtr read(const std::string& text, const TableOptions& options = {}) {
  const ContentsPtr contents = contents_of(text, "t.csv");
  return (options.series_id.empty() ? read_table : read_long_table)(contents, {.name = "t", .split = "train"}, options);
}

TEST(Table, NumbersAloneAreAUnivariateSeries) {
  const DatasetPtr data = read("a,b,y\n1,2.5,no\n-3,4e1,yes\n");
  EXPECT_EQ(data->description().channels, 1);
  EXPECT_EQ(data->description().max_length, 2);
  EXPECT_THAT(data->description().classes, ElementsAre("no", "yes"));
  EXPECT_EQ(data->description().target, "y");
  EXPECT_THAT(data->description().table, ElementsAre(Column{"a", {}}, Column{"b", {}}));
  EXPECT_THAT(sample_of(*data, 1).values, ElementsAre(-3, 40));
  EXPECT_EQ(data->label(1), 1);
}

TEST(Table, CategoriesAndMissingValuesHaveChannels) {
  const DatasetPtr data = read("size,colour,kind\n1,red,a\n?,blue,b\n3,NA,a\n");
  const Description& description = data->description();
  EXPECT_THAT(description.channel_names, ElementsAre("value", "missing", "colour=blue", "colour=red"));
  EXPECT_TRUE(description.flagged);
  EXPECT_EQ(description.missing, 2);
  EXPECT_THAT(description.notes, ElementsAre(HasSubstr("2 missing values")));
  EXPECT_THAT(sample_of(*data, 0).values, ElementsAre(1, 0, 0, 0, /**/ 0, 0, 0, 1));
  EXPECT_THAT(sample_of(*data, 1).values, ElementsAre(0, 1, 0, 0, /**/ 0, 0, 1, 0));
  EXPECT_THAT(sample_of(*data, 2).values, ElementsAre(3, 0, 0, 0, /**/ 0, 1, 0, 0));
}

TEST(Table, OneWordMakesAColumnOfCategories) {
  const DatasetPtr data = read("x,y\n1,a\n2,b\nlarge,a\n2,b\n");
  EXPECT_THAT(data->description().table, ElementsAre(Column{"x", {"1", "2", "large"}}));
}

TEST(Table, AWordAmongManyNumbersIsAMistake) {
  std::string text = "x,y\n";
  for (int i = 0; i < 40; ++i) text += (i == 30 ? "inf" : std::to_string(i)) + (i % 2 == 0 ? ",a\n" : ",b\n");
  try {
    read(text);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.line(), 32);
    EXPECT_THAT(error.what(), HasSubstr("found 'inf', but 39 of its 40 values are numbers"));
  }
}

TEST(Table, LargeNumbersCloseTogetherKeepTheirDigits) {
  const DatasetPtr data = read("t,y\n1700000000.25,a\n1700000003.75,b\n");
  EXPECT_EQ(data->description().table[0].offset, 1700000000.25);
  EXPECT_THAT(sample_of(*data, 1).values, ElementsAre(3.5F));
  TableOptions options;
  options.like = &data->description();
  options.labels_required = false;
  EXPECT_THAT(sample_of(*read("t\n1700000001.25\n", options), 0).values, ElementsAre(1));
}

TEST(Table, DelimitersQuotesAndTargetsOfAllSorts) {
  TableOptions options;
  options.target = "kind of";
  const DatasetPtr data = read("\"kind of\";\"x; \"\"1\"\"\";z\r\n b ;\"1\";2\r\na;3;4\r\n\r\n", options);
  EXPECT_EQ(data->description().table[0].name, "x; \"1\"");
  EXPECT_THAT(data->description().classes, ElementsAre("a", "b"));
  EXPECT_THAT(sample_of(*data, 0).values, ElementsAre(1, 2));
  options.target = "1";  // by number
  EXPECT_EQ(read("y\tx\na\t1\nb\t2\n", options)->description().target, "y");
  options.leave_out = {"id"};
  options.target = "";
  EXPECT_THAT(read("id,x,y\np,1,a\nq,2,b\n", options)->description().table, ElementsAre(Column{"x", {}}));
}

TEST(Table, ColumnsAreScaledEachOnItsOwnByTheTrainingRows) {
  const DatasetPtr data = read("a,b,c,k\n1,7,u,x\n3,7,v,y\n?,9,u,x\n5,7,v,y\n");
  const std::vector<Index> train{0, 1, 2};
  const Scaling scaling = Scaling::fit(*data, std::vector<Index>{0, 1, 3});
  EXPECT_EQ(scaling.steps, 3);
  const Index channels = data->description().channels;  // value, missing, c=u, c=v
  ASSERT_EQ(channels, 4);
  Sample sample = sample_of(*data, 0);
  scaling.apply(sample, channels);
  EXPECT_THAT(sample.values, ElementsAre(-1, 0, 0, 0, /**/ 0, 0, 0, 0, /**/ 0, 0, 1, 0));  // mean 3, deviation 2
  sample = sample_of(*data, 2);
  scaling.apply(sample, channels);
  // The missing number stands at the mean, the column that was constant in training is only moved.
  EXPECT_THAT(sample.values, ElementsAre(0, 1, 0, 0, /**/ 2, 0, 0, 0, /**/ 0, 0, 1, 0));
}

TEST(Table, EqualNumbersAreOneClass) {
  const DatasetPtr train = read("x,y\n1,2\n2,1.0\n3,1\n");
  EXPECT_THAT(train->description().classes, ElementsAre("1", "2"));
  EXPECT_EQ(train->label(1), train->label(2));
  TableOptions options;
  options.like = &train->description();
  EXPECT_EQ(read("x,y\n1,2.0\n", options)->label(0), 1);
}

TEST(Table, OtherSplitsAreReadLikeTheTrainingRows) {
  const DatasetPtr train = read("size,colour,kind\n1,red,a\n?,blue,b\n3,red,a\n");
  TableOptions options;
  options.like = &train->description();
  const DatasetPtr test = read("colour,kind,extra,size\ngreen,a,9,2\nblue,b,9,?\n", options);
  EXPECT_EQ(test->description().channel_names, train->description().channel_names);
  EXPECT_THAT(sample_of(*test, 0).values, ElementsAre(2, 0, 0, 0, /**/ 0, 0, 0, 0));
  EXPECT_THAT(sample_of(*test, 1).values, ElementsAre(0, 1, 0, 0, /**/ 0, 0, 1, 0));
  EXPECT_THAT(test->description().notes, testing::Contains(HasSubstr("1 value is of no category")));
  EXPECT_EQ(test->label(1), 1);
  expect_data_error([&] { read("size,kind\n1,a\n", options); }, 1, 1,
                    "column 'colour' of the training rows is missing");
  expect_data_error([&] { read("size,colour,kind\nbig,red,a\n", options); }, 2, 1,
                    "expected a number as in the training rows");
  expect_data_error([&] { read("size,colour,kind\n1,red,c\n", options); }, 2, 7,
                    "the class 'c' is none of the training rows': a, b");
  options.labels_required = false;
  EXPECT_EQ(read("size,colour\n1,red\n", options)->label(0), -1);
  EXPECT_EQ(read("size,colour,kind\n1,red,\n", options)->label(0), -1);
  EXPECT_EQ(read("size,colour,kind\n1,red,b\n", options)->label(0), 1);
  const DatasetPtr full = read("size,kind\n1,a\n2,b\n");
  options.like = &full->description();
  expect_data_error([&] { read("size\n?\n", options); }, 2, 1,
                    "found a missing value, and the training rows have none");
}

TEST(Table, ErrorsNameTheirPlace) {
  const auto fails = [](const std::string& text, long line, long column, const std::string& message) {
    expect_data_error([&] { read(text); }, line, column, message);
  };
  fails("", 0, 0, "the file is empty");
  fails("a,b\n", 0, 0, "no records");
  fails("x\n1\n", 1, 1, "found one column, 'x'");
  fails("1,2\n3,4\n", 1, 1, "expected the names of the columns");
  fails("a,b\n1,x\n1\n", 3, 1, "found 1 fields, the header has 2");
  fails("a,b\n1,\n", 2, 3, "column 'b': found no class label");
  fails("a,b\n1,\"x\n", 2, 3, "not closed");
  TableOptions options;
  options.missing = Missing::refuse;
  expect_data_error([&] { read("a,b\n1,x\n ,y\n", options); }, 3, 1, "column 'a': found a missing value");
  options.target = "klass";
  EXPECT_THROW(read("a,class\n1,x\n", options), InvalidArgument);
  std::string text = "name,y\n";
  for (int i = 0; i < 300; ++i) text += "n" + std::to_string(i) + (i % 2 == 0 ? ",a\n" : ",b\n");
  fails(text, 2, 1, "more than 256 different values");
}

TEST(Table, ANumberToPredictIsRefused) {
  std::string text = "x,y\n";
  for (int i = 0; i < 50; ++i) text += "1," + std::to_string(i * 0.37) + "\n";
  EXPECT_THROW(read(text), NotSupported);
}

TEST(Table, ProblemsAreCollectedOnRequest) {
  std::vector<DataError> problems;
  TableOptions options;
  options.problems = &problems;
  read("a,b\n1,x\n1\n2,\n3,y,z\n4,y\n", options);
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_EQ(problems[0].line(), 3);
  EXPECT_EQ(problems[1].line(), 4);
  EXPECT_EQ(problems[2].line(), 5);
}

TEST(Table, FromTheDiskItIsTheSameAsInMemory) {
  const Scratch scratch;
  std::string text = "x;\"c\nd\";y\r\n";
  for (int i = 0; i < 300; ++i)
    text += (i % 11 == 0 ? "?" : std::to_string(i * 0.3)) + ";\"t\n" + std::to_string(i % 5) + "\";" +
            (i % 2 == 0 ? "a" : "b") + "\n";
  const ContentsPtr disk = read_contents(scratch.write_packed("t.csv.gz", text), 0);
  ASSERT_TRUE(disk->on_disk());
  const DatasetPtr streamed = read_table(disk, {}, {});
  expect_same(*read(text), *streamed);
  EXPECT_EQ(streamed->description().channels, 7);
}

TEST(LongTable, RowsOfAnIdAreOneSeriesInTheOrderOfTime) {
  TableOptions options;
  options.series_id = "who";
  options.time = "when";
  const DatasetPtr data = read("who,when,u,v,kind\np,2,3,4,a\nq,1,9,9,b\np,1,1,2,a\np,3,?,6,a\n", options);
  EXPECT_EQ(data->size(), 2);
  EXPECT_THAT(data->description().channel_names, ElementsAre("u", "v"));
  EXPECT_THAT(sample_of(*data, 0).values, ElementsAre(1, 2, 3, 4, 3, 6));
  EXPECT_THAT(sample_of(*data, 1).values, ElementsAre(9, 9));
  EXPECT_EQ(data->label(1), 1);
  EXPECT_EQ(data->description().missing, 1);
  // Scaled per channel, as every series.
  std::vector<Index> all{0, 1};
  EXPECT_EQ(Scaling::fit(*data, all).mean.size(), 2u);

  TableOptions like = options;
  like.like = &data->description();
  like.labels_required = false;
  const DatasetPtr other = read("v,who,u,when\n2,z,1,5\n", like);
  EXPECT_THAT(sample_of(*other, 0).values, ElementsAre(1, 2));
  EXPECT_EQ(other->label(0), -1);
}

TEST(LongTable, ErrorsNameTheirPlace) {
  TableOptions options;
  options.series_id = "id";
  const auto fails = [&](const std::string& text, long line, long column, const std::string& message) {
    expect_data_error([&] { read(text, options); }, line, column, message);
  };
  fails("id,x,y\n1,2,a\n1,3,b\n", 3, 5, "the series '1' has another class in line 2");
  fails("id,x,y\n1,word,a\n", 2, 3, "column 'x': expected a number, found 'word'");
  fails("id,x,y\n,2,a\n", 2, 1, "no id");
  options.time = "t";
  fails("id,t,x,y\n1,now,2,a\n", 2, 3, "expected a time as a number");
  fails("id,t,x,y\n1,5,2,a\n1,4,2,a\n1,5,2,a\n", 2, 1, "the time 5 twice");
  options.missing = Missing::refuse;
  fails("id,t,x,y\n1,5,,a\n", 2, 5, "found a missing value");
  options.series_id = "y";
  EXPECT_THROW(read("id,t,x,y\n1,5,2,a\n", options), InvalidArgument);
  options.series_id = "nobody";
  EXPECT_THROW(read("id,t,x,y\n1,5,2,a\n", options), InvalidArgument);
}

}  // namespace
}  // namespace saddle::data
