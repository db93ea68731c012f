// Rank collapse of files: stacks of the theory, masks, attention maps, tokens; and what it shows by itself.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "saddle/analysis/rank_collapse/rank_collapse.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"

namespace saddle::analysis::rank_collapse {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

Tensor gaussian(const Shape& shape, const char* name, double size = 1) {
  Stream stream(4, name);
  Tensor tensor(DType::f64, shape);
  for (Index i = 0; i < tensor.size(); ++i) tensor.set(i, size * stream.normal());
  return tensor;
}

// One head of width 3, W_V = I, five tokens.
TensorFile stack_file() {
  TensorFile file;
  file.tensors.emplace("x", gaussian({2, 5, 3}, "x"));
  file.tensors.emplace("w_q", gaussian({2, 1, 3, 3}, "q", 0.5));
  file.tensors.emplace("w_k", gaussian({2, 1, 3, 3}, "k", 0.5));
  Tensor identity(DType::f64, {2, 1, 3, 3});
  for (Index l = 0; l < 2; ++l)
    for (Index i = 0; i < 3; ++i) identity.set(l * 9 + i * 4, 1);
  file.tensors.emplace("w_v", identity);
  return file;
}

Result of(const TensorFile& file, std::map<std::string, std::string> given = {}) {
  Options options(std::move(given));
  return on_tensors(file, "some.safetensors", options);
}

TEST(RankCollapseFiles, AStackIsTheRecursionOfTheTheory) {
  const TensorFile file = stack_file();
  const Result result = of(file, {{"layers", "6"}, {"mask", "causal"}});
  const Json split = Json::parse(result.json)["splits"][0];
  ASSERT_EQ(split["layers"].size(), 7u);
  Stack stack;
  stack.w_q = to_double<4>(file.tensors.at("w_q").view());
  stack.w_k = to_double<4>(file.tensors.at("w_k").view());
  stack.w_v = to_double<4>(file.tensors.at("w_v").view());
  stack.layers = 6;
  const Array<double, 3> x = to_double<3>(file.tensors.at("x").view());
  double mean = 0;
  for (Index b = 0; b < 2; ++b) {
    Matrix own({5, 3});
    std::copy_n(x.data() + b * 15, 15, own.data());
    mean += trace(stack, own, causal_mask(5)).measures[6].mu / 2;
  }
  EXPECT_NEAR(split["layers"][6]["mu"].get<double>(), mean, 1e-12);
  EXPECT_EQ(split["centres"], 1);
  EXPECT_LT(split["guaranteed_rate"].get<double>(), 1);
  EXPECT_LT(split["measured_rate"].get<double>(), split["guaranteed_rate"].get<double>());
  EXPECT_EQ(result.charts.back().title, "Oscillation and its bound");
  // A norm: the theorem is silent, and so is the page.
  EXPECT_EQ(of(file, {{"norm", "unit"}}).charts.size(), 3u);
}

const Curve* curve_named(const Chart& chart, const std::string& end) {
  for (const Curve& curve : chart.curves)
    if (curve.name.ends_with(end)) return &curve;
  return nullptr;
}

// No line that the theorem is said to guarantee may lie below what it is about.
void expect_bound_holds(const Result& result, const std::string& measured) {
  int bounds = 0;
  for (const Chart& chart : result.charts) {
    const Curve* bound = curve_named(chart, "theorem");
    if (bound == nullptr) continue;
    ++bounds;
    const Curve* seen = curve_named(chart, measured);
    ASSERT_NE(seen, nullptr) << chart.title;
    ASSERT_GT(bound->points.size(), 1u);
    for (std::size_t t = 0; t < std::min(seen->points.size(), bound->points.size()); ++t)
      EXPECT_LE(seen->points[t].second, bound->points[t].second * (1 + 1e-12)) << chart.title << " " << t;
  }
  EXPECT_EQ(bounds, 1);
}

// Two tokens of which the second takes a tenth of the first: mu and oscillation fall by 0.9, mu/|X| more slowly.
TEST(RankCollapseFiles, TheBoundIsDrawnBesideWhatItBounds) {
  TensorFile file;
  Tensor weights(DType::f64, {20, 1, 1, 2, 2});
  for (Index l = 0; l < 20; ++l) {
    weights.set(l * 4, 1);
    weights.set(l * 4 + 2, 0.1);
    weights.set(l * 4 + 3, 0.9);
  }
  file.tensors.emplace("weights", weights);
  const Result result = of(file);
  const Json split = Json::parse(result.json)["splits"][0];
  EXPECT_GT(split["layers"][1]["mu_relative"].get<double>(), 0.9 * split["layers"][0]["mu_relative"].get<double>());
  EXPECT_NEAR(split["oscillation_bound"][7].get<double>(), std::pow(0.9, 7), 1e-12);
  expect_bound_holds(result, "test");
  EXPECT_THAT(result.about, HasSubstr("beside the oscillation"));
  EXPECT_THAT(result.findings[1], HasSubstr("at most 0.9 for the oscillation of attention alone"));
}

// With radius r the theorem promises nothing before r layers have passed.
TEST(RankCollapseFiles, TheBoundHasTheStepsOfTheRadius) {
  TensorFile file = stack_file();
  const Result result = of(file, {{"layers", "9"}, {"mask", "uni_sliding"}, {"window", "2"}});
  const Json split = Json::parse(result.json)["splits"][0];
  ASSERT_EQ(split["radius"], 2);
  const Json& bound = split["oscillation_bound"];
  EXPECT_EQ(bound[1], bound[0]);
  EXPECT_LT(bound[2], bound[1]);
  EXPECT_EQ(bound[3], bound[2]);
  expect_bound_holds(result, "stack");
  // Value matrices leave a factor open: no line, and the sentence says under which condition.
  Tensor values = file.tensors.at("w_v");
  values.set(0, 2);
  file.tensors.at("w_v") = values;
  const Result other = of(file, {{"layers", "9"}, {"mask", "causal"}});
  EXPECT_EQ(other.charts.size(), 3u);
  EXPECT_THAT(other.findings[1], HasSubstr("for mu of attention alone, as long as products of its value matrices"));
}

TEST(RankCollapseFiles, AMaskAloneIsAGraph) {
  TensorFile file;
  Tensor mask(DType::f32, {4, 4});
  for (Index i = 0; i < 4; ++i)
    for (Index j = 0; j <= i; ++j) mask.set(i * 4 + j, 1);
  file.tensors.emplace("mask", mask);
  const Result result = of(file, {{"layers", "9"}});
  const Json split = Json::parse(result.json)["splits"][0];
  EXPECT_EQ(split["layers"].size(), 10u);
  EXPECT_EQ(split["radius"], 1);
  EXPECT_EQ(split["centres"], 1);
  EXPECT_EQ(split["strongly_connected"], false);
  EXPECT_EQ(result.maps.size(), 1u);
  mask.set(0, 0);
  file.tensors.at("mask") = mask;
  EXPECT_THROW(of(file), DataError);
}

// Uniform attention makes all tokens one in one layer.
TEST(RankCollapseFiles, AttentionMapsAlone) {
  TensorFile file;
  Tensor weights(DType::f64, {1, 1, 2, 4, 4});
  for (Index i = 0; i < weights.size(); ++i) weights.set(i, 0.25);
  file.tensors.emplace("weights", weights);
  const Result result = of(file);
  const Json layers = Json::parse(result.json)["splits"][0]["layers"];
  EXPECT_NEAR(layers[0]["effective_rank"].get<double>(), 4, 1e-9);
  EXPECT_NEAR(layers[1]["mu_relative"].get<double>(), 0, 1e-12);
  EXPECT_THAT(result.findings.back(), HasSubstr("Only attention weights are given"));
}

// Whether there is a promise is decided by the graph, not by what rounding leaves of the rate.
TEST(RankCollapseFiles, APromiseNearOneIsAPromise) {
  const auto shown = [](double eps, bool connected) {
    TensorFile file;
    Tensor weights(DType::f64, {3, 1, 1, 2, 2});
    for (Index l = 0; l < 3; ++l) {
      weights.set(l * 4, 1);
      weights.set(l * 4 + 2, connected ? eps : 0);
      weights.set(l * 4 + 3, connected ? 1 - eps : 1);
    }
    file.tensors.emplace("weights", weights);
    return of(file);
  };
  const Result near = shown(4e-16, true), rounded = shown(1e-18, true), apart = shown(0, false);
  EXPECT_THAT(near.findings[1], HasSubstr("promises a factor below 1 by 4e-16 for the oscillation"));
  EXPECT_EQ(near.tables[0].rows[0].back(), "below 1 by 4e-16");
  EXPECT_EQ(Json::parse(rounded.json)["splits"][0]["guaranteed_rate"], 1);
  EXPECT_EQ(Json::parse(rounded.json)["splits"][0]["promised"], true);
  EXPECT_THAT(rounded.findings[1], HasSubstr("promises a factor below 1 by less than 1e-16 for the oscillation"));
  EXPECT_EQ(rounded.tables[0].rows[0].back(), "below 1 by less than 1e-16");
  expect_bound_holds(rounded, "test");
  EXPECT_THAT(apart.findings[1], HasSubstr("promises nothing here"));
  EXPECT_EQ(apart.tables[0].rows[0].back(), "nothing");
  EXPECT_EQ(Json::parse(apart.json)["splits"][0]["promised"], false);
}

// The theorem is about rows that sum to 1.
TEST(RankCollapseFiles, OtherWeightsHaveNoRate) {
  TensorFile file;
  Tensor weights(DType::f64, {2, 1, 1, 4, 4});
  const auto promised = [&](double weight) {
    for (Index i = 0; i < weights.size(); ++i) weights.set(i, weight);
    file.tensors.insert_or_assign("weights", weights);
    return Json::parse(of(file).json)["splits"][0]["guaranteed_rate"].get<double>();
  };
  EXPECT_LT(promised(0.25), 1);
  EXPECT_EQ(promised(0.9), 1);
  EXPECT_EQ(promised(0.2), 1);
}

TEST(RankCollapseFiles, AMaskOfTokensHasTheirShape) {
  TensorFile file = stack_file();
  Tensor kept(DType::f64, {1, 2});
  kept.set(0, 1);
  kept.set(1, 1);
  file.tensors.emplace("token_mask", kept);
  EXPECT_THROW(of(file), DataError);
}

TEST(RankCollapseFiles, TokensStandBeforeAndBehindEveryLayer) {
  TensorFile file;
  Tensor weights(DType::f64, {2, 1, 1, 4, 4});
  for (Index i = 0; i < weights.size(); ++i) weights.set(i, 0.25);
  file.tensors.emplace("weights", weights);
  file.tensors.emplace("tokens", gaussian({2, 1, 4, 3}, "tokens"));
  try {
    of(file);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("2 layers need tokens 3 times, found 2"));
    EXPECT_THAT(error.hint(), HasSubstr("before the first layer come first"));
  }
  file.tensors.at("tokens") = gaussian({3, 1, 4, 3}, "tokens");
  EXPECT_NO_THROW(of(file));
}

TEST(RankCollapseFiles, SayWhatIsMissing) {
  TensorFile file = stack_file();
  file.tensors.erase("w_v");
  try {
    of(file);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("there is no tensor 'w_v'"));
  }
  EXPECT_THROW(of(stack_file(), {{"layers", "0"}}), InvalidArgument);
  EXPECT_THROW(of(stack_file(), {{"norm", "batch"}}), InvalidArgument);
  EXPECT_THROW(of(stack_file(), {{"mask", "round"}}), InvalidArgument);
  EXPECT_THROW(of(stack_file(), {{"depth", "3"}}), InvalidArgument);
}

// What is said about the two tokens is what became of them.
TEST(RankCollapseExample, TheFindingFollowsTheResult) {
  const auto finding = [](const char* beta) {
    Options options(std::map<std::string, std::string>{{"tokens", "8"}, {"beta", beta}});
    const Result result = example(options);
    const double rank = Json::parse(result.json)["counterexample"]["effective_rank"];
    return std::pair{rank, result.findings.at(0)};
  };
  const auto [kept, stays] = finding("1");
  EXPECT_GT(kept, 1.1);
  EXPECT_THAT(stays, HasSubstr("the rank stays 2"));
  const auto [lost, leaves] = finding("0.001");
  EXPECT_LT(lost, 1.05);
  EXPECT_THAT(leaves, Not(HasSubstr("the rank stays 2")));
  EXPECT_THAT(leaves, HasSubstr("does not go there"));
  const auto [line, opposite] = finding("12");
  EXPECT_LT(line, 1.01);
  EXPECT_THAT(opposite, HasSubstr("the rank is 1"));
}

TEST(RankCollapseExample, ShowsTheCounterexampleAndMasks) {
  Options options(std::map<std::string, std::string>{{"tokens", "16"}, {"layers", "4000"}});
  const Json document = Json::parse(example(options).json);
  // Nearly opposite tokens, sigma_2/sigma_1 = 0.069 at the limit; from another start they become one.
  EXPECT_NEAR(document["counterexample"]["effective_rank"].get<double>(), 1.26, 0.01);
  EXPECT_LT(document["counterexample"]["effective_rank_near"].get<double>(), 1.02);
  EXPECT_NEAR(document["counterexample"]["second_token"][0].get<double>(), -0.137, 2e-3);
  std::map<std::string, Json> masks;
  for (const Json& each : document["masks"]) masks[each["mask"]] = each;
  EXPECT_LT(masks["complete"]["layers_until_collapse"], masks["causal"]["layers_until_collapse"]);
  EXPECT_LT(masks["causal"]["layers_until_collapse"], masks["uni_sliding"]["layers_until_collapse"]);
  EXPECT_TRUE(masks["blocks"]["layers_until_collapse"].is_null());
  EXPECT_EQ(masks["blocks"]["guaranteed_rate"], 1);
  Options wrong(std::map<std::string, std::string>{{"tokens", "1"}});
  EXPECT_THROW(example(wrong), InvalidArgument);
}

}  // namespace
}  // namespace saddle::analysis::rank_collapse
