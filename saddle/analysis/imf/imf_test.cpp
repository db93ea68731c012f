#include "saddle/analysis/imf/imf.hpp"

#include <gtest/gtest.h>

#include "saddle/base/error.hpp"
#include "saddle/io/safetensors.hpp"

namespace saddle::analysis::imf {
namespace {

using tape::Value;

// CLS, two words, three pieces of an image, padding.
const Value kind({1, 7}, {0, 1, 1, 2, 2, 2, 0});

TEST(Imf, UniformAttentionIsAtChance) {
  const Value uniform = tape::full({1, 2, 3, 7, 7}, 1.0 / 7);
  const double level = 2.0 * 2 * 3 / 25;
  EXPECT_NEAR(chance(kind).data()[0], level, 1e-12);
  const Value layers = flow(uniform, kind, Flow::layer);
  for (Index l = 0; l < 2; ++l) {
    EXPECT_NEAR(layers.data()[static_cast<std::size_t>(3 * l)], level, 1e-12);
    EXPECT_NEAR(layers.data()[static_cast<std::size_t>(3 * l + 1)], 0.6, 1e-12);
    EXPECT_NEAR(layers.data()[static_cast<std::size_t>(3 * l + 2)], 0.4, 1e-12);
  }
  // Half of the flow stays where it is.
  EXPECT_LT(flow(uniform, kind, Flow::residual).data()[0], level);
  EXPECT_EQ(flow_of_heads(uniform, kind).shape(), (Shape{1, 2, 3, 3}));
}

TEST(Imf, NothingFlowsWithoutTokens) {
  const Value none({1, 3}, {0, 0, 0});
  const Value shares = flow(tape::full({1, 1, 1, 3, 3}, 1.0 / 3), none, Flow::rollout);
  for (const double share : shares.data()) EXPECT_EQ(share, 0);
  EXPECT_EQ(chance(none).data()[0], 0);
}

TEST(Imf, MasksAPickedTokenWithThoseItReads) {
  const Value attention({1, 1, 4, 4}, {0.1, 0.2, 0.3, 0.4, 0.7, 0.1, 0.1, 0.1, 0.25, 0.25, 0.25, 0.25, 1, 0, 0, 0});
  EXPECT_EQ(feature_mask(attention, Value({1, 1}, {0}), 2).data(), (std::vector<double>{1, 0, 1, 1}));
  EXPECT_EQ(feature_mask(attention, Value({1, 1}, {2}), 1).data(), (std::vector<double>{1, 0, 1, 0}));  // a tie
  EXPECT_EQ(feature_mask(attention, Value({1, 1}, {1}), 9).data(), (std::vector<double>{1, 1, 1, 1}));
  EXPECT_THROW(feature_mask(attention, Value({1, 1}, {4}), 1), InvalidArgument);
}

TEST(Imf, RefusesShapesThatDoNotFit) {
  EXPECT_THROW(flow(tape::zeros({1, 2, 3, 7, 6}), kind, Flow::layer), InvalidArgument);
  EXPECT_THROW(flow(tape::zeros({2, 2, 3, 7, 7}), kind, Flow::layer), InvalidArgument);
  EXPECT_THROW(feature_mask(tape::zeros({1, 2, 3}), Value({1, 1}, {0}), 1), InvalidArgument);
}

TEST(Imf, ReadsAFile) {
  Options options;
  const Result result =
      analysis().on_file(SADDLE_SOURCE_DIR "/tests/golden/imf/imf_b2_l3_h2_s13_pad.safetensors", options);
  ASSERT_EQ(result.tables.size(), 1u);
  EXPECT_EQ(result.tables[0].rows.size(), 9u);
  Options wrong(std::map<std::string, std::string>{{"kind", "sort"}});
  EXPECT_THROW(analysis().on_file(SADDLE_SOURCE_DIR "/tests/golden/imf/imf_b2_l3_h2_s13_pad.safetensors", wrong),
               DataError);
}

}  // namespace
}  // namespace saddle::analysis::imf
