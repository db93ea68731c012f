#include "saddle/train/state.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saddle/base/error.hpp"

namespace saddle::train {
namespace {

namespace fs = std::filesystem;

TEST(Best, ByAccuracyThenLossThenTheEarlier) {
  EXPECT_TRUE(Best().beaten_by(0, 9)) << "anything is better than nothing";
  const Best best{0.5, 1.0, 3, 30};
  EXPECT_TRUE(best.beaten_by(0.6, 2.0));
  EXPECT_TRUE(best.beaten_by(0.5, 0.9));
  EXPECT_FALSE(best.beaten_by(0.5, 1.0));
  EXPECT_FALSE(best.beaten_by(0.4, 0.1));
}

TEST(LastCheckpoint, ComesBackWithTheOneBefore) {
  const fs::path folder = fs::path(testing::TempDir()) / "LastCheckpoint";
  fs::remove_all(folder);
  fs::create_directories(folder / "checkpoints");
  EXPECT_FALSE(read_last(folder).has_value());
  const State first{7, 5, {1.5, 2, 3}, {0.25, 0.75, 1.5, 5}, 4, 0.1};
  write_last(folder, {{"a", torch::arange(3)}}, first, 11);
  State second = first;
  second.step = 8;
  write_last(folder, {{"a", torch::arange(3) + 1}}, second, 12);

  const Last last = *read_last(folder);
  EXPECT_EQ(last.state.step, 8);
  EXPECT_EQ(last.state.evaluated, 5);
  EXPECT_EQ(last.state.tally.right, 2);
  EXPECT_EQ(last.state.best.loss, 0.75);
  EXPECT_EQ(last.state.since_best, 4);
  EXPECT_EQ(last.metrics_bytes, 12);
  EXPECT_TRUE(torch::equal(last.checkpoint.tensors.at("a"), torch::arange(3) + 1));

  fs::rename(folder / "checkpoints/previous.safetensors", folder / "checkpoints/last.safetensors");
  EXPECT_EQ(read_last(folder)->state.step, 7);
  write_checkpoint(folder / "checkpoints/last.safetensors", {}, "{}");
  EXPECT_THROW(read_last(folder), DataError);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace saddle::train
