#include "saddle/base/dtype.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

namespace saddle {
namespace {

constexpr DType all_dtypes[] = {DType::f64, DType::f32, DType::bf16, DType::i64, DType::i32, DType::u8, DType::boolean};

BFloat16 from_bits(std::uint16_t bits) {
  BFloat16 value;
  value.bits = bits;
  return value;
}

double value_of(std::uint16_t bits) { return static_cast<double>(from_bits(bits)); }

bool is_nan(BFloat16 value) { return (value.bits & 0x7f80u) == 0x7f80u && (value.bits & 0x7fu) != 0; }

// The nearest bfloat16 to a value by search over magnitudes, ties to the even one. In the arithmetic of long double the
// distances of doubles to bfloat16 values of similar size are exact.
std::uint16_t nearest_by_search(double value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000u : 0u);
  const long double magnitude = std::fabs(static_cast<long double>(value));
  std::uint16_t low = 0, high = 0x7f80;  // the magnitude lies between value_of(low) and value_of(high)
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (static_cast<long double>(value_of(middle)) <= magnitude ? low : high) = middle;
  }
  // Beyond the largest finite value rounding goes on as if the exponent did, then becomes infinity.
  const long double below = static_cast<long double>(value_of(low));
  const long double above = high == 0x7f80 ? 0x1p128L : static_cast<long double>(value_of(high));
  const long double down = magnitude - below, up = above - magnitude;
  const bool take_low = down < up || (down == up && low % 2 == 0);
  return static_cast<std::uint16_t>(sign | (take_low ? low : high));
}

TEST(DType, NamesAndSizes) {
  std::set<std::string_view> names;
  for (DType dtype : all_dtypes) names.insert(to_string(dtype));
  EXPECT_EQ(names, (std::set<std::string_view>{"f64", "f32", "bf16", "i64", "i32", "u8", "bool"}));
  EXPECT_EQ(size_of(DType::f64), sizeof(double));
  EXPECT_EQ(size_of(DType::f32), sizeof(float));
  EXPECT_EQ(size_of(DType::bf16), sizeof(BFloat16));
  EXPECT_EQ(size_of(DType::i64), sizeof(std::int64_t));
  EXPECT_EQ(size_of(DType::i32), sizeof(std::int32_t));
  EXPECT_EQ(size_of(DType::u8), 1u);
  EXPECT_EQ(size_of(DType::boolean), 1u);
}

TEST(DType, OnlyThreeAreFloating) {
  for (DType dtype : all_dtypes)
    EXPECT_EQ(is_floating(dtype), dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16);
}

TEST(BFloat16, EveryValueSurvivesFloatAndDouble) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const BFloat16 value = from_bits(static_cast<std::uint16_t>(bits));
    if (is_nan(value)) {
      EXPECT_TRUE(is_nan(BFloat16(static_cast<float>(value)))) << bits;
      EXPECT_TRUE(is_nan(BFloat16(static_cast<double>(value)))) << bits;
    } else {
      EXPECT_EQ(BFloat16(static_cast<float>(value)).bits, bits);
      EXPECT_EQ(BFloat16(static_cast<double>(value)).bits, bits);
    }
  }
}

TEST(BFloat16, TiesGoToTheEvenNeighbour) {
  const double ulp = 0x1p-7;  // between 1 and 2
  EXPECT_EQ(BFloat16(1 + ulp / 2).bits, BFloat16(1.0).bits);
  EXPECT_EQ(BFloat16(1 + 3 * ulp / 2).bits, BFloat16(1 + 2 * ulp).bits);
  EXPECT_EQ(BFloat16(-1 - ulp / 2).bits, BFloat16(-1.0).bits);
  EXPECT_EQ(BFloat16(-1 - 3 * ulp / 2).bits, BFloat16(-1 - 2 * ulp).bits);
  EXPECT_EQ(BFloat16(static_cast<float>(1 + ulp / 2)).bits, BFloat16(1.0).bits);
  EXPECT_EQ(BFloat16(static_cast<float>(1 + 3 * ulp / 2)).bits, BFloat16(1 + 2 * ulp).bits);
}

// A double a hair above a tie becomes the tie itself as a float; rounding that again would go down.
TEST(BFloat16, DoublesAreRoundedOnce) {
  const double ulp = 0x1p-7, hair = 0x1p-40;
  EXPECT_EQ(static_cast<float>(1 + ulp / 2 + hair), static_cast<float>(1 + ulp / 2));
  EXPECT_EQ(BFloat16(1 + ulp / 2 + hair).bits, BFloat16(1 + ulp).bits);
  EXPECT_EQ(BFloat16(1 + ulp / 2 - hair).bits, BFloat16(1.0).bits);
  EXPECT_EQ(BFloat16(1 + 3 * ulp / 2 - hair).bits, BFloat16(1 + ulp).bits);
  EXPECT_EQ(BFloat16(-1 - ulp / 2 - hair).bits, BFloat16(-1 - ulp).bits);
}

TEST(BFloat16, NaNStaysNaNWithItsSign) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(is_nan(BFloat16(nan)));
  EXPECT_TRUE(is_nan(BFloat16(static_cast<float>(nan))));
  EXPECT_TRUE(std::signbit(static_cast<float>(BFloat16(-std::fabs(nan)))));
  // A payload in the lower half only must not turn into infinity.
  EXPECT_TRUE(is_nan(BFloat16(std::bit_cast<float>(0x7f800001u))));
  EXPECT_TRUE(is_nan(BFloat16(std::bit_cast<float>(0xff80ffffu))));
}

TEST(BFloat16, InfinityAndOverflow) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(BFloat16(inf).bits, 0x7f80);
  EXPECT_EQ(BFloat16(-inf).bits, 0xff80);
  const double largest = value_of(0x7f7f), half_ulp = 0x1p119;
  EXPECT_EQ(BFloat16(largest + half_ulp).bits, 0x7f80);  // the tie goes to the even one: infinity
  EXPECT_EQ(BFloat16(std::nextafter(largest + half_ulp, 0.0)).bits, 0x7f7f);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(BFloat16(1e300).bits, 0x7f80);
  EXPECT_EQ(BFloat16(-1e300).bits, 0xff80);
}

TEST(BFloat16, SubnormalsAndZeros) {
  const double smallest = value_of(1);
  EXPECT_EQ(smallest, 0x1p-133);
  EXPECT_EQ(BFloat16(0.0).bits, 0);
  EXPECT_EQ(BFloat16(-0.0).bits, 0x8000);
  EXPECT_EQ(BFloat16(smallest / 2).bits, 0);  // a tie with zero, which is even
  EXPECT_EQ(BFloat16(std::nextafter(smallest / 2, 1.0)).bits, 1);
  EXPECT_EQ(BFloat16(smallest * 1.5).bits, 2);
  EXPECT_EQ(BFloat16(-5e-324).bits, 0x8000);
  EXPECT_EQ(BFloat16(5e-324).bits, 0);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::denorm_min()).bits, 0);
}

RC_GTEST_PROP(BFloat16, DoublesGoToTheNearest, (std::uint64_t bits)) {
  const double value = std::bit_cast<double>(bits);
  RC_PRE(!std::isnan(value));
  if (std::isinf(value)) RC_DISCARD("no finite neighbours");
  RC_ASSERT(BFloat16(value).bits == nearest_by_search(value));
}

// Random doubles are rarely in range, so also: bfloat16 values, their midpoints, and a few last bits around them.
RC_GTEST_PROP(BFloat16, DoublesNearTiesGoToTheNearest, (std::uint16_t bits, std::int8_t steps, bool midpoint)) {
  const auto magnitude = static_cast<std::uint16_t>(bits & 0x7fffu);
  RC_PRE(magnitude < 0x7f7f);
  double value = value_of(magnitude);
  if (midpoint) value += (value_of(static_cast<std::uint16_t>(magnitude + 1)) - value) / 2;
  for (int s = 0; s != steps; s += steps > 0 ? 1 : -1) value = std::nextafter(value, steps > 0 ? 1e300 : -1e300);
  if ((bits & 0x8000u) != 0) value = -value;
  RC_ASSERT(BFloat16(value).bits == nearest_by_search(value));
}

RC_GTEST_PROP(BFloat16, FloatsGoToTheNearest, (std::uint32_t bits)) {
  const auto value = std::bit_cast<float>(bits);
  RC_PRE(std::isfinite(value));
  RC_ASSERT(BFloat16(value).bits == nearest_by_search(static_cast<double>(value)));
}

}  // namespace
}  // namespace saddle
