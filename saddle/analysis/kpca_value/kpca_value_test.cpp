// Values of heads against the formula of kernel PCA: those that follow it are found, and random ones do not pass.
#include "saddle/analysis/kpca_value/kpca_value.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"

namespace saddle::analysis::kpca_value {
namespace {

using testing::HasSubstr;
namespace formula = mechanisms::kpca_value;

constexpr Index tokens = 14, width = 4;

Array<double, 4> normal(const std::array<Index, 4>& shape, std::uint64_t seed, double scale) {
  Array<double, 4> x(shape);
  Stream stream(seed, "kpca_value_test");
  for (double& number : x) number = scale * stream.normal();
  return x;
}

// Two samples, the second of which has padding. Head 0 has the values that its keys call for, head 1 random ones.
ProbedModel model(const std::string& attention = "softmax") {
  ProbedModel own;
  own.name = "runs/a";
  Probe& probe = own.probes.emplace_back();
  probe.split = "test";
  probe.lengths = {tokens, tokens - 3};
  const Array<double, 4> keys = normal({2, 2, tokens, width}, 1, 0.4);
  Array<double, 4> values = normal({2, 2, tokens, width}, 2, 1);
  for (Index b = 0; b < 2; ++b) {
    const Index N = probe.lengths[static_cast<std::size_t>(b)];
    Matrix k({N, width});
    for (Index i = 0; i < N; ++i)
      for (Index c = 0; c < width; ++c) k(i, c) = keys(b, 0, i, c);
    const formula::Axes axes = formula::axes(formula::gram(k), width, formula::Normalisation::kpca);
    for (Index i = 0; i < N; ++i)
      for (Index c = 0; c < width; ++c) values(b, 0, i, c) = axes.values(i, c);
  }
  ProbedLayer& layer = probe.layers.emplace_back();
  layer.attention = attention;
  layer.parts = {{"keys", keys}, {"values", values}};
  return own;
}

Result result_of(const ProbedModel& own, std::map<std::string, std::string> given = {}) {
  Options options(std::move(given));
  return analysis().on_model(own, options);
}

bool found(const Result& result, const std::string& text) {
  for (const std::string& finding : result.findings)
    if (finding.find(text) != std::string::npos) return true;
  return false;
}

TEST(KpcaValueAnalysis, TellsTheFormulaFromRandomValues) {
  const ProbedModel own = model();
  const ProbedLayer& layer = own.probes[0].layers[0];
  const auto heads = measure(layer.parts.at("keys"), layer.parts.at("values"), own.probes[0].lengths);
  ASSERT_EQ(heads.size(), 2u);
  EXPECT_EQ(heads[0].learned.samples, 2);
  EXPECT_LT(heads[0].learned.spread, 1e-6);
  EXPECT_NEAR(heads[0].learned.linear_cka, 1, 1e-6);
  EXPECT_NEAR(heads[0].learned.matched_cosine, 1, 1e-6);
  EXPECT_GT(heads[0].random.spread, 0.3);
  EXPECT_LT(heads[0].random.linear_cka, 0.9);
  EXPECT_GT(heads[1].learned.spread, 0.3);
  EXPECT_LT(heads[1].learned.linear_cka, 0.9);
  ASSERT_EQ(heads[1].learned.lambda.size(), 4u);
  EXPECT_GE(heads[1].learned.lambda[0], heads[1].learned.lambda[3]);
}

// The measures are those of the mechanism, on the tokens that exist.
TEST(KpcaValueAnalysis, IsTheMeanOverSamplesWithoutPadding) {
  const ProbedModel own = model();
  const auto &keys = own.probes[0].layers[0].parts.at("keys"), &values = own.probes[0].layers[0].parts.at("values");
  double cka = 0, relative = 0;
  for (Index b = 0; b < 2; ++b) {
    const Index N = own.probes[0].lengths[static_cast<std::size_t>(b)];
    Matrix k({N, width}), v({N, width});
    for (Index i = 0; i < N; ++i)
      for (Index c = 0; c < width; ++c) {
        k(i, c) = keys(b, 1, i, c);
        v(i, c) = values(b, 1, i, c);
      }
    const formula::Agreement one = formula::agreement(k, v);
    cka += one.linear_cka / 2;
    for (const formula::Spread& axis : one.relative) relative += axis.mean / 2 / width;
  }
  const Compared head = measure(keys, values, own.probes[0].lengths)[1];
  EXPECT_NEAR(head.learned.linear_cka, cka, 1e-12);
  EXPECT_NEAR(head.learned.spread, relative, 1e-12);
}

TEST(KpcaValueAnalysis, DescribesAModel) {
  const Result result = result_of(model());
  ASSERT_EQ(result.tables.size(), 1u);
  ASSERT_EQ(result.tables[0].rows.size(), 2u);
  EXPECT_EQ(result.tables[0].rows[0].at(6), "1");
  ASSERT_EQ(result.maps.size(), 2u);
  EXPECT_NEAR(result.maps[0].values(0, 0), 1, 1e-6);
  EXPECT_LT(result.maps[0].values(0, 1), 0.9);
  ASSERT_EQ(result.charts.size(), 2u);
  EXPECT_TRUE(result.charts[0].curves.at(1).dashed);
  const auto document = nlohmann::json::parse(result.json);
  EXPECT_EQ(document["layers"][0]["heads"].size(), 2u);
  EXPECT_EQ(document["layers"][0]["heads"][0]["samples"], 2);
  EXPECT_EQ(document["layers"][0]["heads"][1]["relative_by_axis"].size(), 4u);
  EXPECT_TRUE(document["layers"][0]["heads"][1]["random"]["linear_cka"].is_number());
  EXPECT_TRUE(found(result, "disputed"));
  EXPECT_EQ(result.figures, result_of(model()).figures);
}

// One head alone decides the words.
TEST(KpcaValueAnalysis, SaysWhetherValuesFollowTheFormula) {
  for (const Index head : {0, 1}) {
    ProbedModel own = model();
    for (auto& [name, part] : own.probes[0].layers[0].parts) {
      Array<double, 4> alone({2, 1, tokens, width});
      for (Index b = 0; b < 2; ++b) std::copy_n(&part(b, head, 0, 0), tokens * width, &alone(b, 0, 0, 0));
      part = alone;
    }
    const Result result = result_of(own);
    EXPECT_EQ(found(result, "the values follow the formula"), head == 0);
    EXPECT_EQ(found(result, "than random ones"), head == 1);
  }
}

TEST(KpcaValueAnalysis, OtherAttentionsAreLeftOutWithTheReason) {
  EXPECT_EQ(obstacle("softmax"), "");
  EXPECT_EQ(obstacle("softmax+residual"), "");
  EXPECT_EQ(obstacle("whatever a file says"), "");
  for (const char* other : {"cat", "linear(elu1)", "softmax+bn", "softmax+sh", "softmax+causal", "softmax+window(2)"})
    EXPECT_NE(obstacle(other), "") << other;
  ProbedModel own = model();
  own.probes[0].layers.push_back(model("softmax+causal").probes[0].layers[0]);
  own.probes[0].layers.push_back({"softmax", {}, {}, {}});
  const Result result = result_of(own);
  EXPECT_EQ(result.tables[0].rows.size(), 2u);
  EXPECT_EQ(result.maps[0].values.shape()[0], 3);
  EXPECT_TRUE(std::isnan(result.maps[0].values(1, 0)));
  EXPECT_TRUE(found(result, "Layer 1 (softmax+causal) is left out: its queries do not see all keys"));
  EXPECT_TRUE(found(result, "Layer 2 (softmax) is left out: it does not show its keys and values"));
  own.probes[0].layers.erase(own.probes[0].layers.begin());
  try {
    result_of(own);
    FAIL();
  } catch (const NotSupported& error) {
    EXPECT_EQ(error.refusals().size(), 2u);
  }
}

// A head of width 4 has 4 axes from 5 tokens on.
TEST(KpcaValueAnalysis, SamplesWithTooFewOrTooManyTokensAreLeftOut) {
  ProbedModel own = model();
  own.probes[0].lengths = {tokens, width};
  const Result result = result_of(own);
  EXPECT_TRUE(found(result, "1 of 2 samples were measured"));
  EXPECT_EQ(result.tables[0].rows[0].at(3), "1");
  EXPECT_THROW(result_of(own, {{"max_tokens", "13"}}), NotSupported);
  EXPECT_EQ(result_of(model(), {{"max_tokens", "13"}}).tables[0].rows[0].at(3), "1");
  // Equal keys have no axes at all.
  ProbedModel equal = model();
  for (double& number : equal.probes[0].layers[0].parts.at("keys")) number = 1;
  EXPECT_THROW(result_of(equal), NotSupported);
}

// The kernel counts: half the keys in four times the scale are the same keys.
TEST(KpcaValueAnalysis, TheScaleIsThatOfTheLayer) {
  const auto figures = result_of(model()).figures;
  ProbedModel shorter = model("softmax(scale=2)");  // 1/sqrt(width) is 1/2
  for (double& number : shorter.probes[0].layers[0].parts.at("keys")) number /= 2;
  EXPECT_NE(result_of(model("softmax(scale=2)")).figures, figures);
  const auto near = [&](const Result& result) {
    for (std::size_t i = 0; i < figures.size(); ++i) EXPECT_NEAR(result.figures[i].second, figures[i].second, 1e-9);
  };
  near(result_of(shorter));
  // What the model says of itself comes first.
  shorter.probes[0].layers[0].attention = "softmax";
  shorter.probes[0].layers[0].scale = 2;
  near(result_of(shorter));
}

// Values that are 0 have no gamma; nothing that is no number may reach a page.
TEST(KpcaValueAnalysis, DeadValuesHaveNoSpread) {
  ProbedModel own = model();
  for (double& number : own.probes[0].layers[0].parts.at("values")) number = 0;
  const Result result = result_of(own);
  EXPECT_EQ(result.tables[0].rows[0].at(4), "");
  EXPECT_THAT(result.json, testing::Not(HasSubstr("nan")));
  EXPECT_TRUE(nlohmann::json::parse(result.json)["layers"][0]["heads"][0]["relative_spread"].is_null());
  EXPECT_EQ(result.tables[0].rows[0].at(6), "0");
}

TEST(KpcaValueAnalysis, RefusesWhatIsWrong) {
  EXPECT_THROW(result_of(model(), {{"split", "all"}}), InvalidArgument);
  EXPECT_THROW(result_of(model(), {{"normalisation", "none"}}), InvalidArgument);
  EXPECT_THROW(result_of(model(), {{"max_tokens", "1"}}), InvalidArgument);
  EXPECT_THROW(result_of(model(), {{"normalization", "unit"}}), InvalidArgument);
  EXPECT_THROW(result_of({}), InvalidArgument);
  ProbedModel own = model();
  own.probes[0].layers[0].parts.at("keys")(1, 1, 2, 3) = std::nan("");
  EXPECT_THROW(result_of(own), InvalidArgument);
  EXPECT_NE(result_of(model(), {{"normalisation", "unit"}}).figures, result_of(model()).figures);
}

// As a file or Python gives it.
TEST(KpcaValueAnalysis, TakesKeysAndValuesAsTensors) {
  const ProbedModel own = model();
  TensorFile file;
  for (const auto& [name, part] : own.probes[0].layers[0].parts) {
    Tensor tensor(DType::f64, {2, 2, tokens, width});
    for (Index i = 0; i < tensor.size(); ++i) tensor.set(i, part.data()[i]);
    file.tensors.emplace(name, tensor);
  }
  Tensor lengths(DType::f64, {2});
  lengths.set(0, tokens);
  lengths.set(1, tokens - 3);
  file.tensors.emplace("lengths", lengths);
  Options options;
  EXPECT_EQ(analyze_tensors(analysis(), file, "f", options).figures, result_of(own).figures);
}

}  // namespace
}  // namespace saddle::analysis::kpca_value
