#include "saddle/analysis/imf/imf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "places.hpp"
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
  EXPECT_THROW(flow(tape::zeros({1, 0, 3, 7, 7}), kind, Flow::layer), InvalidArgument);
  EXPECT_THROW(flow_of_heads(tape::zeros({1, 2, 0, 7, 7}), kind), InvalidArgument);
  EXPECT_THROW(feature_mask(tape::zeros({1, 2, 3}), Value({1, 1}, {0}), 1), InvalidArgument);
}

TEST(Imf, ReadsAFile) {
  Options options;
  const std::string file = SADDLE_SOURCE_DIR "/tests/golden/imf/imf_b2_l3_h2_s13_pad.safetensors";
  const Result result = analyze_file(analysis(), file, options);
  ASSERT_EQ(result.tables.size(), 1u);
  ASSERT_EQ(result.tables[0].rows.size(), 12u);  // three flows of three layers, each with its mean
  const std::vector<std::string>& mean = result.tables[0].rows[3];
  EXPECT_EQ(mean[1], "mean");
  EXPECT_NEAR(std::stod(mean[2]), result.figures[0].second, 5e-4);
  Options wrong(std::map<std::string, std::string>{{"kind", "sort"}});
  EXPECT_THROW(analyze_file(analysis(), file, wrong), DataError);
}

// Named tensors: attention with the kinds of its tokens, or what a model did.
TEST(Imf, TakesTensors) {
  Tensor attention(DType::f64, {1, 1, 1, 4, 4}), kinds(DType::f64, {1, 4});
  for (Index i = 0; i < attention.size(); ++i) attention.set(i, 0.25);
  for (Index i = 0; i < 4; ++i) kinds.set(i, i < 2 ? 1 : 2);
  Options options, same;
  const Result raw = analyze_tensors(analysis(), {{{"attention", attention}, {"kind", kinds}}, {}}, "arrays", options);
  const Result probed = analyze_tensors(analysis(), {{{"weights", attention}, {"kinds", kinds}}, {}}, "arrays", same);
  EXPECT_EQ(raw.figures, probed.figures);
  EXPECT_NEAR(raw.figures.back().second, 0.5, 1e-12);
}

TEST(Imf, OneKindOfTokensHasNoChance) {
  Tensor attention(DType::f64, {1, 1, 1, 2, 2}), kinds(DType::f64, {1, 2});
  for (Index i = 0; i < 4; ++i) attention.set(i, 0.5);
  for (Index i = 0; i < 2; ++i) kinds.set(i, 1);
  Options options;
  const Result result =
      analyze_tensors(analysis(), {{{"weights", attention}, {"kinds", kinds}}, {}}, "arrays", options);
  EXPECT_EQ(result.findings.at(0), "Layer 0: nothing can cross, all tokens are of one kind.");
}

// Two layers of two heads: in the first, a head reads the other modality alone and a head its own alone; the second is
// uniform. Tokens are CLS, one word, two pieces of an image.
ProbedModel two_layers() {
  ProbedModel model;
  model.name = "made up";
  Probe& probe = model.probes.emplace_back();
  probe.split = "test";
  probe.samples = probe.labels = {0};
  probe.lengths = {4};
  probe.kinds = Array<double, 2>({1, 4});
  const std::array<double, 4> kinds{0, 1, 2, 2};
  for (Index i = 0; i < 4; ++i) probe.kinds(0, i) = kinds[static_cast<std::size_t>(i)];
  for (int l = 0; l < 2; ++l) {
    ProbedLayer& layer = probe.layers.emplace_back();
    layer.attention = "softmax";
    layer.weights = Array<double, 4>({1, 2, 4, 4});
    for (Index h = 0; h < 2; ++h)
      for (Index i = 0; i < 4; ++i)
        for (Index j = 0; j < 4; ++j) {
          const double from = probe.kinds(0, i), to = probe.kinds(0, j);
          const bool read = h == 0 ? from != to && to != 0 : from == to;
          const double keys = h == 0 ? (from == 1 ? 2 : from == 2 ? 1 : 3) : (from == 2 ? 2 : 1);
          layer.weights(0, h, i, j) = l == 1 ? 0.25 : read ? 1 / keys : 0;
        }
  }
  return model;
}

TEST(Imf, LooksIntoModels) {
  Options options;
  const Result result = analysis().on_model(two_layers(), options);
  const auto json = nlohmann::json::parse(result.json);
  EXPECT_NEAR(json["chance"].get<double>(), 4.0 / 9, 1e-12);
  EXPECT_NEAR(json["flows"]["layer"][0][0].get<double>(), 0.5, 1e-12);
  EXPECT_NEAR(json["flows"]["layer"][1][0].get<double>(), 4.0 / 9, 1e-12);
  EXPECT_EQ(json["heads"][0], (nlohmann::json{1.0, 0.0}));
  EXPECT_TRUE(json["flows"].contains("rollout"));
  // The second layer is uniform, in whichever form it is seen; half of a skip connection lets less cross.
  for (const char* flow : {"layer", "residual"})
    EXPECT_NEAR(json["flows"][flow][1][0].get<double>(), json["chances"][flow][1].get<double>(), 1e-12) << flow;
  EXPECT_NEAR(json["chances"]["layer"][0].get<double>(), 4.0 / 9, 1e-12);
  EXPECT_NEAR(json["chances"]["residual"][0].get<double>(), 4.0 / 21, 1e-12);
  ASSERT_EQ(result.findings.size(), 3U);
  EXPECT_EQ(result.findings[0], "Layer 0 lets 0.500 cross, 1.12 times what uniform attention would.");
  EXPECT_NE(result.findings[2].find("our reconstruction"), std::string::npos);
  ASSERT_EQ(result.maps.size(), 1U);
  EXPECT_EQ(result.maps[0].values(0, 0), 1);
}

TEST(Imf, LeavesOutLayersWithoutWeightsAndCountsPooledKeys) {
  ProbedModel model = two_layers();
  std::vector<ProbedLayer>& layers = model.probes[0].layers;
  layers[0].attention = "cat";
  layers[0].weights = {};
  // Pairs of tokens share a key: CLS and the word, both pieces. Half of every row goes to each.
  layers[1].attention = "softmax+sh(2,2)";
  layers[1].weights = Array<double, 4>({1, 2, 4, 2});
  std::fill(layers[1].weights.begin(), layers[1].weights.end(), 0.5);
  Options options;
  const Result result = analysis().on_model(model, options);
  const auto json = nlohmann::json::parse(result.json);
  EXPECT_EQ(json["layer_names"], nlohmann::json{"1"});
  EXPECT_FALSE(json["flows"].contains("rollout"));
  EXPECT_NEAR(json["flows"]["layer"][0][0].get<double>(), 4.0 / 9, 1e-12);
  EXPECT_THAT(result.findings, testing::Contains(testing::HasSubstr("Layer 0 (cat) has no weights")));
  layers.pop_back();
  EXPECT_THROW(analysis().on_model(model, options), NotSupported);
}

TEST(Imf, WarnsOfWeightsBelowZero) {
  ProbedModel model = two_layers();
  model.probes[0].layers[1].weights(0, 0, 1, 2) = -0.5;
  Options options;
  EXPECT_THAT(analysis().on_model(model, options).findings, testing::Contains(testing::HasSubstr("weights below 0")));
}

TEST(Imf, NeedsTwoModalities) {
  ProbedModel model = two_layers();
  Options train(std::map<std::string, std::string>{{"split", "train"}});
  EXPECT_THROW(analysis().on_model(model, train), InvalidArgument);
  model.probes[0].kinds = {};
  Options options;
  EXPECT_THROW(analysis().on_model(model, options), InvalidArgument);
}

}  // namespace
}  // namespace saddle::analysis::imf
