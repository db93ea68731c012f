#include "saddle/analysis/spectrum/spectrum.hpp"

#include <gtest/gtest.h>

#include <array>
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

// Advice is for those who have not taken it.
TEST(Spectrum, AdvisesNoLowRankWhereItIsOrWhereNothingIs) {
  ProbedModel model;
  Probe& probe = model.probes.emplace_back();
  probe.split = "test";
  probe.lengths = {20};
  const Array<double, 4> uniform({1, 1, 20, 20}, 0.05), zero({1, 1, 20, 20});
  probe.layers.push_back({"linear(elu1)", {}, uniform, {}});
  probe.layers.push_back({"softmax", {}, zero, {}});
  probe.layers.push_back({"something else", {}, uniform, {}});
  probe.layers.push_back({"hyla", {}, uniform, {}});
  Options options;
  const Result result = analysis().on_model(model, options);
  ASSERT_EQ(result.findings.size(), 4u);
  EXPECT_EQ(result.findings[0],
            "Layer 0: 1.0 of 20 directions hold 90 %; linear(elu1) has finitely many features already.");
  EXPECT_EQ(result.findings[1], "Layer 1: all weights are 0.");
  EXPECT_NE(result.findings[2].find("try a low-rank"), std::string::npos);
  EXPECT_EQ(result.findings[3], "Layer 3: 1.0 of 20 directions hold 90 %.");  // a layer of its own kind
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

// One head on one sample of three tokens; rows are unit vectors of R^3, so the kernel is diag(sample)^2.
ProbedLayer primal_layer(const std::string& attention, const std::array<double, 3>& sample,
                         const std::array<double, 3>& escore, const std::array<double, 3>& lambda) {
  const auto diagonal = [](const std::array<double, 3>& values) {
    Array<double, 4> matrix({1, 1, 3, 3});
    for (Index i = 0; i < 3; ++i) matrix(0, 0, i, i) = values[static_cast<std::size_t>(i)];
    return matrix;
  };
  ProbedLayer layer;
  layer.attention = attention;
  layer.parts = {{"phi_q", diagonal({1, 1, 1})},
                 {"phi_k", diagonal({1, -1, 1})},
                 {"sample", diagonal(sample)},
                 {"escore", diagonal(escore)},
                 {"rscore", diagonal({1, 1, 1})}};
  Array<double, 4> row({1, 1, 1, 3});
  for (Index i = 0; i < 3; ++i) row(0, 0, 0, i) = lambda[static_cast<std::size_t>(i)];
  layer.parts.emplace("lambda", row);
  return layer;
}

Result result_of(const ProbedLayer& layer) {
  ProbedModel model;
  Probe& probe = model.probes.emplace_back();
  probe.split = "test";
  probe.lengths = {3};
  probe.layers.push_back(layer);
  Options options;
  return analysis().on_model(model, options);
}

std::vector<double> relative_values(const Result& result, std::size_t list) {
  return nlohmann::json::parse(result.json)["layers"][list]["singular_values"].get<std::vector<double>>();
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
}

// Primal-Attention has no matrix of weights: shown are its kernel, what it makes of it, and what lambda promises.
TEST(Spectrum, OfTheKernelOfPrimalAttention) {
  const double root = std::sqrt(3.0);  // L = lambda^2 / N is 1, 1, 1/4
  const Result result = result_of(primal_layer("primal_attention", {2, 1, 1}, {4, 3, 2}, {root, -root, root / 2}));
  const auto layers = nlohmann::json::parse(result.json)["layers"];
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers[0]["of"], "kernel");
  EXPECT_EQ(layers[1]["of"], "learned");
  EXPECT_EQ(layers[2]["of"], "stationary");
  EXPECT_NEAR(layers[0]["largest"].get<double>(), 4, 1e-12);
  EXPECT_NEAR(layers[1]["largest"].get<double>(), 4, 1e-12);
  EXPECT_NEAR(layers[2]["largest"].get<double>(), 4, 1e-12);
  expect_near(relative_values(result, 0), {1, 0.25, 0.25});
  expect_near(relative_values(result, 1), {1, 0.75, 0.125});
  expect_near(relative_values(result, 2), {1, 0.25, 0.25});
  for (const auto& layer : layers) EXPECT_EQ(layer["tokens"], 3);
  // The kernel counts, and what lambda promises is drawn as a theory.
  EXPECT_NEAR(result.figures.at(1).second, layers[0]["effective_rank"].get<double>(), 1e-12);
  EXPECT_FALSE(result.charts.at(0).curves.at(0).dashed);
  EXPECT_TRUE(result.charts.at(0).curves.at(2).dashed);
  ASSERT_EQ(result.findings.size(), 2u);
  EXPECT_NE(result.findings[0].find("only where the KSVD objective is stationary"), std::string::npos);
}

// Two models with the same lambda are told apart by what they do with the data.
TEST(Spectrum, LambdaAloneIsNotTheKernel) {
  const Result one = result_of(primal_layer("primal_attention", {1, 1, 1}, {1, 1, 1}, {1, 1, 1}));
  const Result other = result_of(primal_layer("primal_attention", {2, 1, 1}, {1, 1, 0.5}, {1, 1, 1}));
  EXPECT_NE(relative_values(one, 0), relative_values(other, 0));
  EXPECT_NE(relative_values(one, 1), relative_values(other, 1));
  EXPECT_EQ(relative_values(one, 2), relative_values(other, 2));
  EXPECT_NE(one.tables.at(0).rows, other.tables.at(0).rows);
}

TEST(Spectrum, TheTraceSaysWhichKernelIsDecomposed) {
  const Result result = result_of(primal_layer("primal_attention(trace=with_x)", {2, 1, 1}, {1, 1, 1}, {1, 1, 1}));
  expect_near(relative_values(result, 0), {1, 1, 1});
}

TEST(Spectrum, SaysThatLambdaWasNotTrained) {
  const auto says = [](const std::string& attention) {
    const Result result = result_of(primal_layer(attention, {2, 1, 1}, {1, 1, 1}, {1, 1, 1}));
    return result.findings.at(1).find("lambda was not trained by the loss") != std::string::npos;
  };
  EXPECT_TRUE(says("primal_attention(eta=0)"));
  EXPECT_FALSE(says("primal_attention(eta=0.1)"));
  EXPECT_FALSE(says("attention"));  // a file that does not tell
}

TEST(Spectrum, ALambdaOfZeroIsHarmless) {
  const Result result = result_of(primal_layer("primal_attention", {2, 1, 1}, {1, 1, 1}, {0, 1, 1}));
  expect_near(relative_values(result, 2), {1, 0, 0});
  ProbedLayer wrong = primal_layer("primal_attention", {2, 1, 1}, {1, 1, 1}, {1, 1, 1});
  wrong.parts.at("escore")(0, 0, 1, 1) = std::nan("");
  EXPECT_THROW(result_of(wrong), InvalidArgument);
}

// As a file or Python gives it; without the parts the layer is named.
TEST(Spectrum, TakesTheKernelFromTensors) {
  const ProbedLayer layer = primal_layer("primal_attention", {2, 1, 1}, {4, 3, 2}, {1, 1, 1});
  TensorFile file;
  file.metadata["attention"] = "primal_attention";
  for (const auto& [name, part] : layer.parts) {
    Tensor tensor(DType::f64, name == "lambda" ? Shape{1, 3} : Shape{1, 1, 3, 3});
    for (Index i = 0; i < tensor.size(); ++i) tensor.set(i, part.data()[i]);
    file.tensors.emplace("layers.0." + name, tensor);
  }
  Options options;
  EXPECT_EQ(relative_values(analyze_tensors(analysis(), file, "f", options), 1), relative_values(result_of(layer), 1));
  file.tensors.erase("layers.0.lambda");
  Options again;
  EXPECT_THROW(analyze_tensors(analysis(), file, "f", again), NotSupported);
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
