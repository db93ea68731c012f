#include "saddle/analysis/spectrum/spectrum.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"

namespace saddle::analysis::spectrum {
namespace {

TEST(Spectrum, OfADiagonalMatrix) {
  Array<double, 2> matrix({3, 4});
  matrix(0, 0) = 1;
  matrix(1, 2) = -4;
  matrix(2, 1) = 2;
  const Measures m = measure(matrix);
  ASSERT_EQ(m.values.size(), 3u);
  EXPECT_NEAR(m.values[0], 4, 1e-12);
  EXPECT_NEAR(m.values[2], 1, 1e-12);
  EXPECT_EQ(m.explained_90, 2);  // 16 of 21, then 20 of 21
  EXPECT_THROW(measure(Array<double, 2>({0, 3})), InvalidArgument);
  for (const double wrong : {std::nan(""), HUGE_VAL}) {
    matrix(0, 1) = wrong;
    EXPECT_THROW(measure(matrix), InvalidArgument);
  }
}

TEST(Spectrum, EffectiveRankCountsEqualValues) {
  Array<double, 2> matrix({5, 5});
  for (Index i = 0; i < 5; ++i) matrix(i, i) = 0.3;
  EXPECT_NEAR(measure(matrix).effective_rank, 5, 1e-9);
}

TEST(Spectrum, AdvisesLowRankWhereItIsLow) {
  ProbedModel model;
  Probe& probe = model.probes.emplace_back();
  probe.split = "test";
  probe.lengths = {20};
  Array<double, 4> uniform({1, 1, 20, 20}, 0.05);
  probe.layers.push_back({"softmax", {}, uniform, {}});
  probe.layers.push_back({"cat", {}, {}, {}});
  Options options;
  const Result result = analysis().on_model(model, options);
  ASSERT_EQ(result.findings.size(), 2u);
  EXPECT_NE(result.findings[0].find("low-rank"), std::string::npos);
  EXPECT_NE(result.findings[1].find("no matrix"), std::string::npos);
  Options wrong(std::map<std::string, std::string>{{"split", "all"}});
  EXPECT_THROW(analysis().on_model(model, wrong), InvalidArgument);
}

TEST(Spectrum, ShowsSingularValuesByTheLargest) {
  ProbedModel model;
  Probe& probe = model.probes.emplace_back();
  probe.split = "train";
  probe.lengths = {2};
  Array<double, 4> weights({1, 2, 3, 3});
  for (Index h = 0; h < 2; ++h) {
    weights(0, h, 0, 0) = 1;
    weights(0, h, 1, 1) = h == 0 ? 0.5 : 0.25;
    weights(0, h, 2, 2) = 9;  // padding
  }
  probe.layers.push_back({"softmax", {}, weights, {}});
  Options options;
  const auto layer = nlohmann::json::parse(analysis().on_model(model, options).json)["layers"][0];
  ASSERT_EQ(layer["singular_values"].size(), 2u);
  EXPECT_NEAR(layer["singular_values"][0].get<double>(), 1, 1e-12);
  EXPECT_NEAR(layer["singular_values"][1].get<double>(), 0.375, 1e-12);
  EXPECT_NEAR(layer["explained"][0].get<double>(), (1 / 1.25 + 1 / 1.0625) / 2, 1e-12);
}

// Primal-Attention has no matrix of weights: 1/lambda^2 are the singular values of what it learnt.
TEST(Spectrum, OfALearnedKernel) {
  ProbedModel model;
  Tensor lambda(DType::f64, {1, 3});
  for (Index i = 0; i < 3; ++i) lambda.set(i, i == 1 ? -1 : 2);
  model.weights.emplace("blocks.0.attn.layer.lambda", lambda);
  Probe& probe = model.probes.emplace_back();
  probe.split = "test";
  probe.lengths = {4};
  probe.layers.push_back({"primal_attention", {}, {}, {}});
  Options options;
  const auto layer = nlohmann::json::parse(analysis().on_model(model, options).json)["layers"][0];
  EXPECT_EQ(layer["of"], "learned kernel");
  EXPECT_NEAR(layer["singular_values"][0].get<double>(), 1, 1e-12);
  EXPECT_NEAR(layer["singular_values"][2].get<double>(), 0.25, 1e-12);
}

TEST(Spectrum, RefusesModelsWithoutMatrices) {
  ProbedModel model;
  Probe& probe = model.probes.emplace_back();
  probe.split = "test";
  probe.lengths = {4};
  probe.layers.push_back({"cat", {}, {}, {}});
  Options options;
  EXPECT_THROW(analysis().on_model(model, options), NotSupported);
}

}  // namespace
}  // namespace saddle::analysis::spectrum
