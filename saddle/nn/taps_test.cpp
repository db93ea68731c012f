#include "saddle/nn/taps.hpp"

#include <gtest/gtest.h>

namespace saddle::nn {
namespace {

TEST(HeadDistance, IsMeasuredOverPairsAndTokens) {
  // Two heads, two tokens of width two: 5 apart at the first token, equal at the second.
  const Tensor heads = torch::tensor({{{{3.0, 4.0}, {6.0, 8.0}}, {{0.0, 0.0}, {6.0, 8.0}}}});
  const HeadDistance all = head_distance(heads);
  EXPECT_DOUBLE_EQ(all.mean, 2.5);
  EXPECT_DOUBLE_EQ(all.deviation, 2.5);
  EXPECT_DOUBLE_EQ(all.norm, (5 + 10 + 0 + 10) / 4.0);
  const HeadDistance first = head_distance(heads, torch::tensor({{true, false}}));
  EXPECT_DOUBLE_EQ(first.mean, 5);
  EXPECT_DOUBLE_EQ(first.deviation, 0);
  EXPECT_DOUBLE_EQ(first.norm, 2.5);
}

TEST(HeadDistance, OneHeadHasNone) { EXPECT_EQ(head_distance(torch::ones({2, 1, 3, 4})).mean, 0); }

}  // namespace
}  // namespace saddle::nn
