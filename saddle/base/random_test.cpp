#include "saddle/base/random.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "saddle/base/error.hpp"

namespace saddle {
namespace {

using Block = std::array<std::uint32_t, 4>;

// The known answers published with Random123.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}, 7), (Block{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, 7),
            (Block{0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}));
}

// Stored runs are repeated from their seed, so these numbers must never change.
TEST(Stream, NumbersAreFixedForever) {
  Stream stream(7, "dropout");
  EXPECT_EQ(stream.bits64_at(0), 15167810826482163510u);
  EXPECT_EQ(stream.bits64_at(std::uint64_t{1} << 40), 5237963880435325747u);
  EXPECT_EQ(stream.bits32_at(0), static_cast<std::uint32_t>(stream.bits64_at(0)));
}

TEST(Stream, NamesAndSeedsGiveDifferentNumbers) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed : {0u, 1u, 2u}) {
    for (const char* name : {"init", "shuffle", "dropout", "features", "augmentation", ""}) {
      for (std::uint64_t i = 0; i < 50; ++i) seen.insert(Stream(seed, name).bits64_at(i));
    }
  }
  EXPECT_EQ(seen.size(), 3u * 6u * 50u);
}

RC_GTEST_PROP(Stream, SequenceEqualsRandomAccess, (std::uint64_t seed, std::uint32_t start)) {
  Stream stream(seed, "init");
  stream.seek(start);
  const Stream fixed = stream;
  RC_ASSERT(stream.uniform() == fixed.uniform_at(start));
  RC_ASSERT(stream.normal() == fixed.normal_at(std::uint64_t{start} + 1));
  RC_ASSERT(stream.below(10) == fixed.below_at(std::uint64_t{start} + 2, 10));
  RC_ASSERT(stream.bits64() == fixed.bits64_at(std::uint64_t{start} + 3));
  RC_ASSERT(stream.bits32() == fixed.bits32_at(std::uint64_t{start} + 4));
  RC_ASSERT(stream.position() == std::uint64_t{start} + 5);
}

TEST(Stream, ResumesExactlyFromItsPosition) {
  Stream whole(3, "shuffle");
  for (int i = 0; i < 17; ++i) whole.normal();
  Stream resumed(3, "shuffle");
  resumed.seek(whole.position());
  EXPECT_EQ(resumed, whole);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(resumed.bits64(), whole.bits64());
}

TEST(Stream, UniformHasTheRightMoments) {
  Stream stream(1, "init");
  const int n = 200000;
  double sum = 0, squares = 0, least = 1, largest = 0;
  for (int i = 0; i < n; ++i) {
    const double u = stream.uniform();
    sum += u;
    squares += u * u;
    least = std::min(least, u);
    largest = std::max(largest, u);
  }
  EXPECT_GE(least, 0.0);
  EXPECT_LT(largest, 1.0);
  EXPECT_NEAR(sum / n, 0.5, 5 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(squares / n, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / n));
}

TEST(Stream, NormalHasTheRightMoments) {
  Stream stream(1, "features");
  const int n = 200000;
  double sum = 0, squares = 0, cubes = 0, fourths = 0, neighbours = 0, last = 0;
  for (int i = 0; i < n; ++i) {
    const double z = stream.normal();
    sum += z;
    squares += z * z;
    cubes += z * z * z;
    fourths += z * z * z * z;
    neighbours += z * last;
    last = z;
  }
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(cubes / n, 0, 5 * std::sqrt(15.0 / n));
  EXPECT_NEAR(fourths / n, 3, 5 * std::sqrt(96.0 / n));
  EXPECT_NEAR(neighbours / n, 0, 5 / std::sqrt(n));
}

RC_GTEST_PROP(Stream, BelowStaysBelow, (std::uint64_t seed, std::uint64_t i, std::uint64_t bound)) {
  RC_PRE(bound > 0u);
  RC_ASSERT(Stream(seed, "shuffle").below_at(i, bound) < bound);
}

// Three quarters of 2^64: a plain remainder would give the lowest third twice as often as the rest.
TEST(Stream, BelowHasNoBias) {
  const std::uint64_t bound = std::uint64_t{3} << 62;
  Stream stream(5, "shuffle");
  const int n = 30000;
  std::array<int, 3> count{};
  for (int i = 0; i < n; ++i) ++count[stream.below(bound) >> 62];
  for (int c : count) EXPECT_NEAR(c, n / 3.0, 5 * std::sqrt(n * 2.0 / 9));
}

TEST(Stream, BelowZeroIsRefused) { EXPECT_THROW(Stream(0, "init").below(0), InvalidArgument); }

TEST(Stream, ShuffleReachesAllOrdersEquallyOften) {
  Stream stream(2, "shuffle");
  const int n = 24000;
  std::array<int, 64> count{};
  for (int i = 0; i < n; ++i) {
    std::vector<std::size_t> items{0, 1, 2};
    stream.shuffle(items);
    ++count[items[0] * 16 + items[1] * 4 + items[2]];
  }
  EXPECT_EQ(std::count_if(count.begin(), count.end(), [](int c) { return c > 0; }), 6);
  for (int c : count) {
    if (c == 0) continue;
    EXPECT_NEAR(c, n / 6.0, 5 * std::sqrt(n * 5.0 / 36));
  }
}

TEST(Stream, ShuffleOfNothingTakesNoDraw) {
  Stream stream(2, "shuffle");
  std::vector<int> none, one{4};
  stream.shuffle(none);
  stream.shuffle(one);
  EXPECT_EQ(stream.position(), 0u);
  EXPECT_EQ(one.front(), 4);
}

}  // namespace
}  // namespace saddle
