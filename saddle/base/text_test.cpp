#include "saddle/base/text.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace saddle {
namespace {

const std::vector<std::string> names{"softmax", "linear", "attention_bn", "attention_bn_sh", "rbf", "window", "bn"};

TEST(Nearest, FindsTheWordThatWasMeant) {
  EXPECT_EQ(nearest("sofmax", names), "softmax");
  EXPECT_EQ(nearest("sotfmax", names), "softmax");
  EXPECT_EQ(nearest("Softmax", names), "softmax");
  EXPECT_EQ(nearest("soft", names), "softmax");
  EXPECT_EQ(nearest("atention_bn", names), "attention_bn");
  EXPECT_EQ(nearest("rbg", names), "rbf");
  EXPECT_EQ(nearest("widnow", names), "window");
}

TEST(Nearest, IsEmptyWhenNothingIsClose) {
  EXPECT_EQ(nearest("fourier", names), "");
  EXPECT_EQ(nearest("xy", names), "");
  EXPECT_EQ(nearest("", names), "");
  EXPECT_EQ(nearest("x", std::vector<std::string>{"y", ""}), "");
  EXPECT_EQ(nearest("softmax", std::vector<std::string>{}), "");
}

RC_GTEST_PROP(Nearest, FindsItself, ()) {
  const auto word = *rc::gen::nonEmpty(rc::gen::string<std::string>());
  RC_ASSERT(nearest(word, std::vector<std::string>{"another", word}) == word);
}

TEST(Join, PutsTheSeparatorBetween) {
  EXPECT_EQ(join(std::vector<std::string>{}), "");
  EXPECT_EQ(join(std::vector<std::string>{"a"}), "a");
  EXPECT_EQ(join(std::vector<const char*>{"a", "", "c"}), "a, , c");
  EXPECT_EQ(join(names, "+").substr(0, 14), "softmax+linear");
}

TEST(Number, ShortestText) {
  EXPECT_EQ(format_number(0.1), "0.1");
  EXPECT_EQ(format_number(1), "1");
  EXPECT_EQ(format_number(1e-6), "1e-06");
  EXPECT_EQ(format_number(-0.0), "-0");
  EXPECT_EQ(format_number(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(format_number(-std::numeric_limits<double>::min()), "-2.2250738585072014e-308");
}

RC_GTEST_PROP(Number, EveryDoubleSurvivesARoundTrip, (std::uint64_t bits)) {
  const double value = std::bit_cast<double>(bits);
  const auto again = parse_number(format_number(value));
  RC_ASSERT(again.has_value());
  RC_ASSERT((std::isnan(value) && std::isnan(*again)) || std::bit_cast<std::uint64_t>(*again) == bits);
}

TEST(Number, AcceptsDecimalNotation) {
  EXPECT_EQ(parse_number("3"), 3.0);
  EXPECT_EQ(parse_number("-.5"), -0.5);
  EXPECT_EQ(parse_number("2.5E3"), 2500.0);
  EXPECT_EQ(parse_number("-inf"), -std::numeric_limits<double>::infinity());
}

TEST(Number, RefusesEverythingElse) {
  for (const char* text : {"", " 1", "1 ", "+1", "1.5x", "0x10", "1,5", "--1", "1e", "1e999", ".", "nan(1)", "one"}) {
    EXPECT_EQ(parse_number(text), std::nullopt) << "'" << text << "'";
  }
}

}  // namespace
}  // namespace saddle
