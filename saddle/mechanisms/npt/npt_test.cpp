#include "saddle/mechanisms/npt/npt.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "places.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"
#include "saddle/io/safetensors.hpp"
#include "saddle/mechanisms/golden_tape.hpp"
#include "saddle/mechanisms/npt/optimiser.hpp"

namespace saddle::mechanisms::npt {
namespace {

TapeValues recorded(const std::string& name) {
  return tape_inputs(io::read_safetensors(SADDLE_SOURCE_DIR "/tests/golden/npt/" + name + ".safetensors"));
}

TEST(Npt, RowsInAnotherOrderGiveRowsInThatOrder) {
  const auto inputs = recorded("abd_n7_d3_e4");
  const auto weights = without_prefix(inputs, "param.");
  const std::vector<Index> order{3, 0, 6, 1, 5, 2, 4};
  LayerOptions options;
  options.heads = 2;
  const Value h = inputs.at("in.h");
  const Value turned = layer(tape::select(h, 0, order), Axis::rows, weights, options);
  const Value expected = tape::select(layer(h, Axis::rows, weights, options), 0, order);
  for (std::size_t i = 0; i < expected.data().size(); ++i) EXPECT_NEAR(turned.data()[i], expected.data()[i], 1e-12);
}

TEST(Npt, AttributesOfARowDoNotSeeOtherRows) {
  const auto inputs = recorded("aba_n7_d5_e8");
  const auto weights = without_prefix(inputs, "param.");
  LayerOptions options;
  options.heads = 2;
  const Value h = inputs.at("in.h");
  const Value alone = layer(tape::slice(h, 0, 2, 1), Axis::attributes, weights, options);
  const Value among = tape::slice(layer(h, Axis::attributes, weights, options), 0, 2, 1);
  for (std::size_t i = 0; i < alone.data().size(); ++i) EXPECT_NEAR(alone.data()[i], among.data()[i], 1e-12);
}

TEST(Npt, CountsAsPublishedOrExactly) {
  EXPECT_EQ(randomised_count(17, 0.9), 3);  // int(15.3) = 15 hidden less one
  EXPECT_EQ(randomised_count(17, 0.9, true), 2);
  EXPECT_EQ(randomised_count(2, 0.9), 0);
  EXPECT_EQ(randomised_count(1, 0.9), 1);
  EXPECT_EQ(randomised_count(0, 0.9), 0);
}

TEST(Npt, MasksHideOrReplace) {
  const Value column({3, 3}, {1, 0, 0, 0, 1, 0, 1, 0, 0});
  const Value out = masked(column, {2, true}, {true, false, false}, {false, true, false}, {0, 0, 0});
  EXPECT_EQ(out.data(), (std::vector<double>{0, 0, 1, 1, 0, 0, 1, 0, 0}));
  EXPECT_THROW(masked(column, {2, true}, {true, false, false}, {false, true, false}, {0, 2, 0}), InvalidArgument);
  EXPECT_THROW(masked(column, {1, false}, {true, false, false}, {false, true, false}, {0, 2, 0}), InvalidArgument);
}

TEST(Npt, LambFollowsTheGradientAndLooksBack) {
  LambOptions options;
  options.lookahead_every = 2;
  Lamb lamb(options);
  std::vector<double> weights{3.0, -4.0};
  for (int step = 0; step < 200; ++step) lamb.step(weights, {2 * weights[0], 2 * weights[1]}, 0.05);
  EXPECT_LT(std::hypot(weights[0], weights[1]), 1.0);
}

TEST(Npt, SchedulesBeginFlatAndEndLow) {
  EXPECT_EQ(flat_then_anneal(0.01, 0.5, 0, 20), 0.01);
  EXPECT_EQ(flat_then_anneal(0.01, 0.5, 9, 20), 0.01);
  EXPECT_LT(flat_then_anneal(0.01, 0.5, 18, 20), 0.0005);
  EXPECT_EQ(feature_share(1, 0, 20), 1);
  EXPECT_EQ(feature_share(1, 1, 20), 1);
  EXPECT_NEAR(feature_share(1, 21, 20), 0, 1e-12);
  EXPECT_EQ(feature_share(1, 30, 20), 0);
}

TEST(Npt, RefusesWhatDoesNotFit) {
  EXPECT_THROW(layer(tape::zeros({2, 3}), Axis::rows, {}, {}), InvalidArgument);
  EXPECT_THROW(layer(tape::zeros({2, 3, 4}), Axis::attributes, {}, {}), InvalidArgument);  // no weights, 8 heads
  ModelOptions options;
  options.columns = {{1, false}};
  options.depth = 3;
  EXPECT_THROW(model({tape::zeros({2, 2})}, {}, options), InvalidArgument);
  EXPECT_THROW(model({}, {}, options), InvalidArgument);
}

}  // namespace
}  // namespace saddle::mechanisms::npt
