#include "saddle/data/events.hpp"

#include "saddle/data/scratch_test.hpp"

namespace saddle::data {
namespace {

using testing::ElementsAre;

DatasetPtr read(const std::string& types, const std::string& times, const std::vector<std::string>& names = {},
                std::vector<DataError>* problems = nullptr) {
  return read_events(contents_of(types, "types"), contents_of(times, "times"), {}, names, problems);
}

TEST(Events, TypesAndTimesBelongTogetherLineByLine) {
  const DatasetPtr data = read("4 4 9\n1\n", "10.5 11 1e3\n7\n", {"a", "b", "c", "d", "e", "f", "g", "h", "i"});
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(data->description().kind, Kind::events);
  EXPECT_EQ(data->description().vocabulary, 10);
  EXPECT_EQ(data->description().token_names[4], "d");
  EXPECT_EQ(data->description().min_length, 1);
  EXPECT_EQ(data->description().max_length, 3);
  const Sample sample = sample_of(*data, 0);
  EXPECT_THAT(sample.tokens, ElementsAre(4, 4, 9));
  EXPECT_THAT(sample.times, ElementsAre(10.5, 11, 1000));
  EXPECT_EQ(sample.label, -1);
  EXPECT_EQ(read("2 5\n", "1 2\n")->description().vocabulary, 6);
}

TEST(Events, ErrorsNameTheirPlace) {
  const auto fails = [](const std::string& types, const std::string& times, long line, long column,
                        const std::string& message) {
    expect_data_error([&] { read(types, times, {"a", "b"}); }, line, column, message);
  };
  fails("", "", 0, 0, "no sequences");
  fails("1\n1\n", "1\n", 2, 1, "types:2:1: this sequence has no line in times");
  fails("1\n", "1\n2\n", 2, 1, "times:2:1: this sequence has no line in types");
  fails("1 x\n", "1 2\n", 1, 3, "expected a whole number, found 'x'");
  fails("1 1.5\n", "1 2\n", 1, 3, "found '1.5'");
  fails("1 3\n", "1 2\n", 1, 3, "found the type 3, types are 1 to 2");
  fails("0\n", "1\n", 1, 1, "found the type 0");
  fails("1 2\n", "1\n", 1, 1, "found 1 times, line 1 of types has 2 types");
  fails("1 2\n", "1 0.5\n", 1, 3, "the time 0.5 is not at 1 or later");
  fails("1 2\n", "1 inf\n", 1, 3, "the time inf is not at 1 or later");
  fails("\n1\n", "5\n1\n", 1, 1, "no events");
}

TEST(Events, MayHappenAtTheSameTime) { EXPECT_EQ(read("1 2 1\n", "1 1 1\n", {})->length(0), 3); }

TEST(Events, ProblemsAreCollectedOnRequest) {
  std::vector<DataError> problems;
  EXPECT_EQ(read("1\n0\n1 1\n", "1\n1\n2 1\n", {}, &problems)->size(), 1);
  EXPECT_EQ(problems.size(), 2u);
}

}  // namespace
}  // namespace saddle::data
