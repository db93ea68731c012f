#include "saddle/train/schedule.hpp"

#include <gtest/gtest.h>

namespace saddle::train {
namespace {

TEST(Schedule, OneCycleMovesRateAndBetaAsTheLongRangeArenaDoes) {
  run::TrainSettings settings;
  settings.schedule = "one_cycle";
  settings.lr = 1e-4;
  settings.warmup = 1000;
  const auto expect = [&](Index t, double lr, double beta1) {
    const Rate rate = rate_at(settings, t, 5000);
    EXPECT_NEAR(rate.lr, lr, 1e-9 * 1e-4 + 1e-10) << t;
    EXPECT_NEAR(rate.beta1, beta1, 1e-6) << t;
  };
  expect(0, 4e-6, 0.95);
  expect(999, 1e-4, 0.85);
  expect(3000, 4.99752e-5, 0.900025);
  expect(4999, 4e-10, 0.95);
}

TEST(Schedule, CosineWarmsUpAndEndsAtItsMinimum) {
  run::TrainSettings settings;
  settings.schedule = "cosine";
  settings.lr = 2e-3;
  settings.min_lr = 1e-5;
  settings.warmup = 0.1;
  EXPECT_NEAR(rate_at(settings, 0, 100).lr, 2e-6, 1e-12);
  EXPECT_NEAR(rate_at(settings, 10, 100).lr, 2e-3, 1e-12);
  EXPECT_NEAR(rate_at(settings, 99, 100).lr, 1e-5, 1e-12);
  for (Index t = 11; t < 100; ++t) EXPECT_LT(rate_at(settings, t, 100).lr, rate_at(settings, t - 1, 100).lr);
}

TEST(Schedule, FlatAnnealWarmsUpWhenAsked) {
  run::TrainSettings settings;
  settings.schedule = "flat_anneal";
  settings.lr = 1e-2;
  EXPECT_DOUBLE_EQ(rate_at(settings, 0, 100).lr, 1e-2);
  settings.warmup = 4;
  EXPECT_DOUBLE_EQ(rate_at(settings, 0, 100).lr, 0.25e-2);
  EXPECT_DOUBLE_EQ(rate_at(settings, 3, 100).lr, 1e-2);
  EXPECT_LT(rate_at(settings, 90, 100).lr, 1e-2);
}

TEST(Schedule, OneUpdateInAllIsNoDivisionByZero) {
  for (const char* name : {"constant", "cosine", "one_cycle", "flat_anneal"}) {
    run::TrainSettings settings;
    settings.schedule = name;
    settings.warmup = 0.5;
    EXPECT_GT(rate_at(settings, 0, 1).lr, 0) << name;
    EXPECT_LE(rate_at(settings, 0, 1).lr, settings.lr) << name;
  }
}

}  // namespace
}  // namespace saddle::train
