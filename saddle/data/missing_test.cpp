#include "saddle/data/missing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace saddle::data {
namespace {

using testing::ElementsAre;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

TEST(Missing, IsInterpolatedWithinAChannelAndHeldAtTheEnds) {
  std::vector<float> values{nan, 10, 1, nan, nan, nan, nan, 40, 4, nan, nan, nan};  // [6, 2]
  EXPECT_EQ(fill_missing(values, 2, Missing::interpolate), 8);
  EXPECT_THAT(values, ElementsAre(1, 10, 1, 20, 2, 30, 3, 40, 4, 40, 4, 40));
}

TEST(Missing, AChannelWithoutValuesBecomesZero) {
  std::vector<float> values{nan, 1, nan, 2};
  EXPECT_EQ(fill_missing(values, 2, Missing::interpolate), 2);
  EXPECT_THAT(values, ElementsAre(0, 1, 0, 2));
}

TEST(Missing, MayBecomeZero) {
  std::vector<float> values{nan, 1, nan};
  EXPECT_EQ(fill_missing(values, 1, Missing::zero), 2);
  EXPECT_THAT(values, ElementsAre(0, 1, 0));
  EXPECT_EQ(missing_note(2, Missing::zero), "2 missing values were set to 0");
  EXPECT_EQ(missing_note(1, Missing::interpolate), "1 missing value was interpolated");
}

TEST(Missing, NothingMissingChangesNothing) {
  std::vector<float> values{3, 1};
  EXPECT_EQ(fill_missing(values, 1, Missing::interpolate), 0);
  EXPECT_THAT(values, ElementsAre(3, 1));
}

}  // namespace
}  // namespace saddle::data
