// The analysis as the registry offers it, on files and on what a model did.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "places.hpp"
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
  EXPECT_EQ(result.findings.back(), "algorithm: icd, test: fisher_z, alpha: 0.01, n: 768");
  EXPECT_THAT([] { on_file({{"alpah", "0.1"}}); }, ThrowsMessage<InvalidArgument>(HasSubstr("alpah")));
  EXPECT_THROW(on_file({{"algorithm", "ges"}}), InvalidArgument);
  EXPECT_THROW(on_file({{"alpha", "small"}}), InvalidArgument);
}

ProbedModel model() {
  const Index B = 2, H = 2, N = 5, X = 64;
  Probe probe;
  probe.split = "test";
  probe.samples = {17, 42};
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
  EXPECT_EQ(json["sample"], 17);
  EXPECT_THAT(all.findings.front(), HasSubstr("sample 17 of the test split in layer 1"));
  EXPECT_EQ(std::count(all.findings.begin(), all.findings.end(), "algorithm: icd, test: fisher_z, alpha: 0.01, n: 64"),
            1);  // once for all heads
  analysis::Options one(Texts{{"sample", "1"}, {"head", "1"}, {"layer", "0"}, {"samples", "768"}});
  const auto chosen = nlohmann::json::parse(analysis().on_model(model(), one).json);
  EXPECT_EQ(chosen["heads"].size(), 1U);
  EXPECT_EQ(chosen["sample"], 42);
  EXPECT_EQ(chosen["heads"][0]["nodes"].size(), 5U);
}

// Tensors are one matrix, or what a model did.
TEST(Analyze, Tensors) {
  Tensor weights(DType::f64, {1, 1, 2, 4, 4});  // [L,B,H,N,N]
  Stream stream(5, "weights");
  for (Index i = 0; i < weights.size(); ++i) weights.set(i, 0.01 + stream.uniform());
  const Texts width{{"samples", "64"}};
  analysis::Options every(width);
  EXPECT_EQ(analyze_tensors(analysis(), {{{"weights", weights}}, {}}, "arrays", every).networks.size(), 2U);
  analysis::Options same(width);
  EXPECT_EQ(analyze_tensors(analysis(), {{{"attention", weights}}, {}}, "arrays", same).networks.size(), 2U);
  Tensor matrix(DType::f64, {3, 3});
  for (Index i = 0; i < 3; ++i) matrix.set(4 * i, 1);
  analysis::Options one(width);
  const Result found = analyze_tensors(analysis(), {{{"correlation", matrix}}, {}}, "arrays", one);
  EXPECT_EQ(found.networks.size(), 1U);
  EXPECT_TRUE(found.networks[0].edges.empty());
  analysis::Options table(Texts{{"samples", "64"}, {"test", "chi_square"}});
  EXPECT_THROW(analyze_tensors(analysis(), {{{"correlation", matrix}}, {}}, "arrays", table), InvalidArgument);
}

TEST(Analyze, TrueGraph) {
  std::string folder = (std::filesystem::temp_directory_path() / "saddle-truth-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  std::ofstream table(folder + "/table.csv");
  table << "a,b,c\n";
  Stream stream(9, "table");
  for (int row = 0; row < 500; ++row) {
    const double a = stream.normal(), b = stream.normal();
    table << a << ',' << b << ',' << a + b + stream.normal() << '\n';
  }
  table.close();
  std::ofstream(folder + "/graph.csv") << "cause,effect\na,c\nb,c\nc,d\n";
  analysis::Options options(Texts{{"algorithm", "pc"}, {"truth", folder + "/graph.csv"}, {"rows", "400"}});
  const Result result = analysis().on_file(folder + "/table.csv", options);
  std::filesystem::remove_all(folder);
  const auto json = nlohmann::json::parse(result.json);
  EXPECT_EQ(json["samples"], 400);
  EXPECT_EQ(json["truth"]["edges"], 2);
  EXPECT_EQ(json["truth"]["skeleton_precision"], 1);
  EXPECT_EQ(json["truth"]["arrow_recall"], 1);
  EXPECT_EQ(result.figures.at(0), (std::pair<std::string, double>{"precision of the skeleton", 1}));
  EXPECT_THAT(result.findings.back(), HasSubstr("left out: 1"));
  EXPECT_THAT(result.findings, testing::Contains("algorithm: pc, test: fisher_z, alpha: 0.01, n: 400"));
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
  refused({{"samples", "-4"}});
  refused({{"samples", "3"}});
  ProbedModel pooled = model();
  pooled.probes[0].layers[1].weights = Array<double, 4>({2, 2, 5, 3});
  analysis::Options options;
  EXPECT_THROW(analysis().on_model(pooled, options), NotSupported);
  pooled.probes[0].layers[1].weights = {};
  EXPECT_THROW(analysis().on_model(pooled, options), NotSupported);
}

}  // namespace
}  // namespace saddle::analysis::causal_discovery
