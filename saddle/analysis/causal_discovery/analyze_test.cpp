// The analysis as the registry offers it, on files and on what a model did.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "saddle/analysis/causal_discovery/causal_discovery.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"

namespace saddle::analysis::causal_discovery {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

using Texts = std::map<std::string, std::string>;

Result on_file(const Texts& values) {
  analysis::Options options(values);
  return analysis().on_file(SADDLE_SOURCE_DIR "/tests/golden/causal-discovery/icd_subset_n13.safetensors", options);
}

TEST(Analyze, File) {
  const Result result = on_file({{"nodes", "2,3,6,7,10"}, {"target", "6"}});
  const auto json = nlohmann::json::parse(result.json);
  EXPECT_EQ(json["nodes"].size(), 5U);
  EXPECT_EQ(json["edges"].size(), result.tables.at(0).rows.size());
  EXPECT_EQ(json["explanations"]["target"], 2);
  EXPECT_EQ(result.files.at(0).first, "graph.dot");
  EXPECT_THAT(result.findings.at(0), HasSubstr("of 10 pairs are adjacent"));
  EXPECT_THAT(result.findings.at(1), HasSubstr("6 may depend on"));
  EXPECT_THAT([] { on_file({{"alpah", "0.1"}}); }, ThrowsMessage<InvalidArgument>(HasSubstr("alpah")));
  EXPECT_THROW(on_file({{"algorithm", "ges"}}), InvalidArgument);
  EXPECT_THROW(on_file({{"alpha", "small"}}), InvalidArgument);
}

ProbedModel model() {
  const Index B = 2, H = 2, N = 5, X = 64;
  Probe probe;
  probe.split = "test";
  probe.lengths = {4, 5};
  ProbedLayer layer;
  layer.attention = "softmax";
  layer.tokens = Array<double, 3>({B, N, X});
  layer.weights = Array<double, 4>({B, H, N, N});
  Stream stream(41, "weights");
  for (double& weight : layer.weights) weight = 0.01 + stream.uniform();
  probe.layers = {layer, layer};
  return {"toy", {}, {}, {probe}};
}

TEST(Analyze, Model) {
  analysis::Options none;
  const Result all = analysis().on_model(model(), none);
  EXPECT_EQ(all.files.size(), 2U);
  EXPECT_EQ(all.files[1].first, "layer1_head1.dot");
  const auto json = nlohmann::json::parse(all.json);
  EXPECT_EQ(json["heads"][0]["nodes"].size(), 4U);  // the first sample has four tokens
  EXPECT_EQ(json["heads"][0]["samples"], 64);       // the width of the model
  analysis::Options one(Texts{{"sample", "1"}, {"head", "1"}, {"layer", "0"}, {"samples", "768"}});
  const auto chosen = nlohmann::json::parse(analysis().on_model(model(), one).json);
  EXPECT_EQ(chosen["heads"].size(), 1U);
  EXPECT_EQ(chosen["heads"][0]["nodes"].size(), 5U);
}

TEST(Analyze, RefusesWhatTheModelDoesNotHave) {
  const auto refused = [](const Texts& values) {
    analysis::Options options(values);
    EXPECT_THROW(analysis().on_model(model(), options), InvalidArgument);
  };
  refused({{"split", "train"}});
  refused({{"layer", "2"}});
  refused({{"head", "2"}});
  refused({{"sample", "2"}});
  refused({{"sample", "-1"}});
  refused({{"test", "chi_square"}});
  ProbedModel pooled = model();
  pooled.probes[0].layers[1].weights = Array<double, 4>({2, 2, 5, 3});
  analysis::Options options;
  EXPECT_THROW(analysis().on_model(pooled, options), NotSupported);
  pooled.probes[0].layers[1].weights = {};
  EXPECT_THROW(analysis().on_model(pooled, options), NotSupported);
}

}  // namespace
}  // namespace saddle::analysis::causal_discovery
