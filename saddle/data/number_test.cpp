#include "saddle/data/number.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace saddle::data {
namespace {

TEST(Number, ReadsTheWaysNumbersAreWritten) {
  const std::pair<const char*, double> cases[] = {{"1e-5", 1e-5}, {"+3", 3},       {".5", 0.5},  {"-2.", -2},
                                                  {"1E+3", 1000}, {"-.25", -0.25}, {"007", 7},   {"1e-400", 0},
                                                  {"3e38", 3e38}, {"-0", 0},       {" \t4 ", 4}, {"+.5e1", 5}};
  for (const auto& [text, expected] : cases) {
    double value = -99;
    EXPECT_EQ(read_field(text, value), Found::number) << text;
    EXPECT_EQ(value, expected) << text;
  }
}

TEST(Number, KnowsWhatIsMissingAndWhatIsNoNumber) {
  double value = 0;
  for (const char* text : {"?", "NaN", "nan", "NAN", "-nan", "", "  ", "NA"}) {
    EXPECT_EQ(read_field(text, value), Found::missing) << text;
    EXPECT_TRUE(std::isnan(value)) << text;
  }
  for (const char* text : {"inf", "-Infinity", "1e39", "-1e300", "1e999"})
    EXPECT_EQ(read_field(text, value), Found::too_large) << text;
  for (const char* text : {"x", "1.2.3", "1,5", "--1", "+-1", "+", "-", ".", "e5", "0x10", "1 2", "nan(1)", "??", "na"})
    EXPECT_EQ(read_field(text, value), Found::other) << text;
}

TEST(Number, LeavesWhatFollows) {
  double value = 0;
  std::string_view rest;
  EXPECT_EQ(read_number("2.5,3", value, rest), Found::number);
  EXPECT_EQ(rest, ",3");
  EXPECT_EQ(read_number("?:a", value, rest), Found::missing);
  EXPECT_EQ(rest, ":a");
}

}  // namespace
}  // namespace saddle::data
