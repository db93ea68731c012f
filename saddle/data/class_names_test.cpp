#include "saddle/data/class_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saddle/data/labels.hpp"

namespace saddle::data {
namespace {

using testing::ElementsAre;

TEST(ClassNames, EqualNumbersAreOneClass) {
  EXPECT_THAT(class_names({"1.0", "2", "1", "+1", "10"}), ElementsAre("1", "10", "2"));
  EXPECT_THAT(class_names({"1.0", "2.0", "1.0"}), ElementsAre("1.0", "2.0"));
  EXPECT_THAT(class_names({"007", "8"}), ElementsAre("007", "8"));
  EXPECT_THAT(class_names({"0", "-0", "1e1", "10"}), ElementsAre("0", "10"));
  // One word makes all of them words: versions and codes are no numbers.
  EXPECT_THAT(class_names({"1.10", "1.1", "1.2.3"}), ElementsAre("1.1", "1.10", "1.2.3"));
  EXPECT_TRUE(class_names({}).empty());
}

TEST(ClassNames, AreFoundHoweverTheyAreWritten) {
  const std::vector<std::string> numbers{"1", "10", "2.5"}, words{"1", "one"};
  EXPECT_EQ(class_number(numbers, "10"), 1);
  EXPECT_EQ(class_number(numbers, "1e1"), 1);
  EXPECT_EQ(class_number(numbers, "2.50"), 2);
  EXPECT_EQ(class_number(numbers, "3"), -1);
  EXPECT_EQ(class_number(numbers, "one"), -1);
  EXPECT_EQ(class_number(numbers, "?"), -1);
  EXPECT_EQ(class_number(words, "1"), 0);
  EXPECT_EQ(class_number(words, "1.0"), -1);
}

TEST(Labels, EqualNumbersAreOneLabel) {
  Labels labels;
  EXPECT_EQ(labels.number("2"), 0);
  EXPECT_EQ(labels.number("1.0"), 1);
  EXPECT_EQ(labels.number("1"), 2);
  EXPECT_THAT(labels.sort(), ElementsAre(1, 0, 0));
  EXPECT_THAT(labels.names(), ElementsAre("1", "2"));
  EXPECT_EQ(labels.number("2.0"), 1);
  EXPECT_EQ(labels.number("3"), -1);
  EXPECT_EQ(Labels({"a", "b"}).number("b"), 1);
}

}  // namespace
}  // namespace saddle::data
