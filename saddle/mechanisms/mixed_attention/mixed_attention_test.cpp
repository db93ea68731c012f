#include "saddle/mechanisms/mixed_attention/mixed_attention.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saddle/base/error.hpp"

namespace saddle::mechanisms::mixed_attention {
namespace {

using ::testing::HasSubstr;

LayerPlace image(Index rows, Index columns) {
  LayerPlace place;
  place.X = 16;
  place.H = 2;
  place.N = rows * columns;
  place.grid = {rows, columns};
  return place;
}

void expect_refused(const MixedAttention& mixed, const LayerPlace& place, const std::string& message,
                    const std::string& hint) {
  try {
    mixed.check(place);
    FAIL() << "accepted, expected: " << message;
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr(message));
    EXPECT_THAT(error.hint(), HasSubstr(hint));
  }
}

TEST(MixedAttention, SaysWhereItCannotStand) {
  EXPECT_NO_THROW(MixedAttention{}.check(image(8, 16)));
  LayerPlace place = image(8, 8);
  place.grid = {};
  expect_refused({}, place, "not known to be an image", "vision transformer");
  place = image(8, 8);
  place.prefix = 1;
  expect_refused({}, place, "a token before the image stands in no window", "pooling=average and class_token=false");
  expect_refused({}, image(28, 28), "windows of 8 x 8 do not divide a grid of 28 x 28",
                 "window can be 2, 4, 7, 14, 28");
  expect_refused({}, image(7, 9), "do not divide", "another size of patches");
  place = image(8, 8);
  place.H = 3;
  expect_refused({}, place, "32 inner channels cannot be cut into quarters of 3 heads", "multiple of 4 heads");
  expect_refused({.window = 0}, image(8, 8), "window is 0", "");
  expect_refused({.expansion = -1}, image(8, 8), "expansion -1", "");
}

// A window at the lower right corner holds pixels of four parts, one at the upper left of a single one.
TEST(MixedAttention, RegionsMeetAtTheEdges) {
  const auto labels = regions({4, 6}, 2);
  ASSERT_EQ(labels.size(), 24u);
  const auto window = [&](std::size_t w) {
    return std::vector<Index>(labels.begin() + 4 * w, labels.begin() + 4 * w + 4);
  };
  EXPECT_THAT(window(0), ::testing::ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(window(1), ::testing::ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(window(2), ::testing::ElementsAre(1, 2, 1, 2));
  EXPECT_THAT(window(3), ::testing::ElementsAre(3, 3, 6, 6));
  EXPECT_THAT(window(5), ::testing::ElementsAre(4, 5, 7, 8));
}

// Four times the image, four times the work; no map of all tokens by all tokens.
TEST(MixedAttention, CostIsLinearInTheImage) {
  const auto cost = [](Index side) {
    return MixedAttention{}.cost(image(side, side), 1, primal::Pass::forward, DType::f32);
  };
  const auto small = cost(256), large = cost(512);
  EXPECT_NEAR(large.multiply_adds / small.multiply_adds, 4, 0.1);
  EXPECT_NEAR(large.memory / small.memory, 4, 0.1);
}

TEST(MixedAttention, HasNoUseForAMask) {
  LayerInputs inputs;
  inputs.place = image(8, 8);
  inputs.x = tape::zeros({1, 64, 16});
  inputs.key_mask = tape::full({1, 64}, 1.0);
  EXPECT_THROW(MixedAttention{}.reference(inputs), InvalidArgument);
}

}  // namespace
}  // namespace saddle::mechanisms::mixed_attention
