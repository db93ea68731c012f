#include "saddle/primal/dropout.hpp"

#include <gtest/gtest.h>

namespace saddle::primal {
namespace {

TEST(Dropout, DropsTheShareItIsAskedFor) {
  for (double p : {0.0, 0.1, 0.5, 1.0}) {
    const Dropout dropout{p, 42, 3};
    Index dropped = 0;
    for (Index i = 0; i < 200; ++i)
      for (Index j = 0; j < 500; ++j) dropped += is_dropped(dropout, 1, i, j);
    EXPECT_NEAR(static_cast<double>(dropped) / 1e5, p, 0.006) << p;
  }
  EXPECT_DOUBLE_EQ(dropout_factor({0.5, 0, 0}), 2);
  EXPECT_EQ(dropout_factor({1, 0, 0}), 0);
}

// Seed, offset (both halves) and head each give another pattern; the same of all gives the same.
TEST(Dropout, DependsOnAllItIsGiven) {
  const auto pattern = [](const Dropout& dropout, Index head) {
    std::vector<bool> bits;
    for (Index i = 0; i < 16; ++i)
      for (Index j = 0; j < 16; ++j) bits.push_back(is_dropped(dropout, head, i, j));
    return bits;
  };
  const Dropout base{0.5, 7, 1};
  EXPECT_EQ(pattern(base, 0), pattern(base, 0));
  EXPECT_NE(pattern(base, 0), pattern(base, 1));
  EXPECT_NE(pattern(base, 0), pattern({0.5, 8, 1}, 0));
  EXPECT_NE(pattern(base, 0), pattern({0.5, 7, 2}, 0));
  EXPECT_NE(pattern(base, 0), pattern({0.5, 7, 1 + (std::uint64_t{1} << 32)}, 0));
}

}  // namespace
}  // namespace saddle::primal
