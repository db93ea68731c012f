// The theory on what a model did: maps of pooled keys, depth, samples that do not suffice.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "saddle/analysis/attention_paths/attention_paths.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"

namespace saddle::analysis::attention_paths {
namespace {

using testing::HasSubstr;

constexpr Index B = 12, N = 6, X = 5;

// Samples of two classes that differ by the first feature of their first token.
Probe samples_with(const std::vector<Index>& heads, const std::string& attention = "softmax") {
  Stream stream(3, "probe");
  Probe probe;
  probe.split = "train";
  probe.tokens = Array<double, 3>({B, N, X});
  for (double& value : probe.tokens) value = 0.3 * stream.normal();
  for (Index b = 0; b < B; ++b) {
    probe.samples.push_back(b);
    probe.labels.push_back(b % 2);
    probe.lengths.push_back(N);
    probe.tokens(b, 0, 0) += b % 2 == 0 ? 2 : -2;
  }
  for (const Index H : heads) {
    ProbedLayer& layer = probe.layers.emplace_back();
    layer.attention = attention;
    layer.heads = Array<double, 4>({B, H, N, 2});
    layer.weights = Array<double, 4>({B, H, N, N});
    layer.tokens = probe.tokens;
    // Head 0 looks at the first token, the others at one of the last three.
    for (Index b = 0; b < B; ++b)
      for (Index h = 0; h < H; ++h)
        for (Index i = 0; i < N; ++i) layer.weights(b, h, i, h == 0 ? 0 : N - 1 - h % 3) = 1;
  }
  return probe;
}

TEST(AttentionPathsOnModels, TheHeadThatSeesTheLabelScoresHighest) {
  const GroupedScores found = grouped_head_scores(samples_with({3}));
  ASSERT_EQ(found.scores.size(), 3u);
  EXPECT_EQ(found.unconverged, 0);
  EXPECT_EQ(found.scores[0].score, 1);
  EXPECT_LT(found.scores[1].score, 0.9);
  EXPECT_LT(found.scores[2].score, 0.9);
}

TEST(AttentionPathsOnModels, NeedsNoTestSamples) {
  ProbedModel model;
  model.probes.push_back(samples_with({3, 2}));
  const ModelTheory theory = theory_of(model);
  EXPECT_TRUE(std::isnan(theory.accuracy));
  EXPECT_TRUE(std::isnan(theory.accuracy_gp));
  model.probes.push_back(samples_with({3, 2}));
  model.probes.back().split = "test";
  EXPECT_EQ(theory_of(model).accuracy, 1);
  EXPECT_THROW(theory_of({}), InvalidArgument);
  // What class a test sample has may not be known.
  ProbedModel unlabelled = model;
  unlabelled.probes.back().labels.assign(B, -1);
  EXPECT_TRUE(std::isnan(theory_of(unlabelled).accuracy));
  Options options;
  const Result result = on_model(unlabelled, options);
  EXPECT_TRUE(result.figures.empty());
  for (const std::string& finding : result.findings) EXPECT_THAT(finding, testing::Not(HasSubstr("test samples")));
  // One group is the whole theory.
  const GroupedScores grouped = grouped_head_scores(model.probes.front());
  EXPECT_EQ(grouped.groups, std::vector<Index>{0});
  ASSERT_EQ(grouped.scores.size(), theory.scores.size());
  for (std::size_t i = 0; i < theory.scores.size(); ++i) {
    EXPECT_EQ(grouped.scores[i].score, theory.scores[i].score) << i;
    EXPECT_EQ(grouped.scores[i].layer, theory.scores[i].layer) << i;
  }
}

TEST(AttentionPathsOnModels, DeepModelsAreTakenInGroups) {
  ModelOptions few;
  few.most_paths = 9;
  const Probe probe = samples_with({3, 3, 2, 4, 3});
  const GroupedScores found = grouped_head_scores(probe, few);
  EXPECT_EQ(found.groups, (std::vector<Index>{0, 2, 4}));
  ASSERT_EQ(found.scores.size(), 15u);
  EXPECT_EQ(found.scores[6].layer, 2);
  EXPECT_EQ(found.scores[14].layer, 4);
  EXPECT_EQ(found.scores[14].head, 2);
  // A group begins with the tokens before it: the same layers by themselves score the same.
  const GroupedScores alone = grouped_head_scores(samples_with({2, 4}), few);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(found.scores[6 + i].score, alone.scores[i].score, 1e-12) << i;
}

TEST(AttentionPathsOnModels, LayersWithoutWeightsAreLeftOut) {
  Probe probe = samples_with({2, 2, 2});
  probe.layers[1].weights = {};
  const GroupedScores found = grouped_head_scores(probe);
  EXPECT_EQ(found.groups, (std::vector<Index>{0, 2}));
  EXPECT_EQ(found.scores.size(), 4u);
  for (ProbedLayer& layer : probe.layers) layer.weights = {};
  EXPECT_THROW(grouped_head_scores(probe), NotSupported);
}

// Attention to a pooled key is attention to all tokens of its window, in equal parts.
TEST(AttentionPathsOnModels, PooledKeysStandForTheirTokens) {
  Probe pooled = samples_with({3}, "softmax+sh(1,2,4)"), plain = samples_with({3});
  pooled.lengths.assign(B, 5);
  plain.lengths.assign(B, 5);
  for (double& value : pooled.layers[0].weights) value = 0;
  for (double& value : plain.layers[0].weights) value = 0;
  Stream stream(5, "weights");
  const Index factors[] = {1, 2, 4};
  for (Index b = 0; b < B; ++b)
    for (Index h = 0; h < 3; ++h)
      for (Index i = 0; i < 5; ++i)
        for (Index first = 0, J = 0; first < 5; first += factors[h], ++J) {
          const double weight = stream.uniform();
          const Index end = std::min<Index>(5, first + factors[h]);
          pooled.layers[0].weights(b, h, i, J) = weight;
          for (Index t = first; t < end; ++t)
            plain.layers[0].weights(b, h, i, t) = weight / static_cast<double>(end - first);
        }
  const auto found = grouped_head_scores(pooled).scores, expected = grouped_head_scores(plain).scores;
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(found[i].raw, expected[i].raw, 1e-9 * expected[i].raw) << i;
}

TEST(AttentionPathsOnModels, LabelsAreNeeded) {
  Probe probe = samples_with({2});
  probe.labels[3] = -1;
  try {
    grouped_head_scores(probe);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("have no labels"));
  }
}

TEST(AttentionPathsOnModels, OneClassIsTooFew) {
  Probe probe = samples_with({2});
  probe.labels.assign(B, 1);
  try {
    grouped_head_scores(probe);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("all of one class"));
  }
}

// The class stands in the first token: a head that keeps tokens where they are is what the first token needs.
TEST(AttentionPathsOnModels, ReadsWhereTheModelReads) {
  Probe probe = samples_with({2});
  for (double& value : probe.layers[0].weights) value = 0;
  for (Index b = 0; b < B; ++b)
    for (Index i = 0; i < N; ++i) {
      probe.layers[0].weights(b, 0, i, i) = 1;
      probe.layers[0].weights(b, 1, i, N - 1) = 1;
    }
  ProbedModel model;
  model.probes = {probe};
  const auto share = [&](const ModelOptions& options) {
    const Array<double, 3> xi = theory_of(model, options).xi;
    return std::fabs(xi(0, 0, 0));
  };
  const double average = share({});
  EXPECT_EQ(share({.readout = Readout::average_pooling}), average);
  const double first = std::fabs(probe.tokens(0, 0, 0)) / std::sqrt(2.0 * X);
  EXPECT_NEAR(share({.readout = Readout::first_token}), first, 1e-12);
  model.probes[0].first_token = true;
  EXPECT_NEAR(share({}), first, 1e-12);
  // The last token that exists.
  model.probes[0].lengths.assign(B, 4);
  const double last = std::fabs(probe.tokens(0, 3, 0)) / std::sqrt(2.0 * X);
  EXPECT_NEAR(share({.readout = Readout::last_token}), last, 1e-12);
  model.probes[0].first_token = false;
  model.probes[0].last_token = true;
  EXPECT_NEAR(share({}), last, 1e-12);
}

TEST(AttentionPathsOnModels, ShowsKernelsAndPredictions) {
  ProbedModel model;
  model.name = "m";
  model.classes = {"left", "right"};
  model.probes = {samples_with({3, 2}), samples_with({3, 2})};
  model.probes[1].split = "test";
  Options options;
  const Result result = on_model(model, options);
  const auto document = nlohmann::json::parse(result.json);
  ASSERT_EQ(document["path_kernels"].size(), 3u);
  EXPECT_EQ(document["path_kernels"][0]["path"].size(), 2u);
  EXPECT_EQ(document["u"].size(), 6u);
  EXPECT_EQ(document["predictions"][0]["class"], "left");
  EXPECT_EQ(document["predictions"][1]["mean"].size(), static_cast<std::size_t>(B));
  // Two classes are each other's opposite.
  EXPECT_NEAR(document["predictions"][0]["mean"][4].get<double>(), -document["predictions"][1]["mean"][4].get<double>(),
              1e-9);
  EXPECT_EQ(document["accuracy"], 1);
  // The kernel is the weighted sum over pairs of paths.
  const ModelTheory theory = theory_of(model);
  const Array<double, 4> kernels = path_kernels(theory.xi);
  double sum = 0;
  for (Index a = 0; a < 6; ++a)
    for (Index b = 0; b < 6; ++b) sum += theory.u(a, b) * kernels(a, b, 1, 2) / 6;
  EXPECT_NEAR(document["kernel"][1][2].get<double>(), sum, 1e-9 * std::fabs(sum));
  EXPECT_EQ(result.maps.size(), 5u);
  Options wrong(std::map<std::string, std::string>{{"readout", "middle"}});
  EXPECT_THROW(on_model(model, wrong), InvalidArgument);
}

TEST(AttentionPathsOnModels, TooManyPathsLeaveScores) {
  ProbedModel model;
  model.probes = {samples_with({4, 4, 4, 4, 4})};
  Options options;
  const Result deep = on_model(model, options);
  EXPECT_EQ(nlohmann::json::parse(deep.json)["groups"], (std::vector<Index>{0, 4}));
  EXPECT_EQ(nlohmann::json::parse(deep.json)["scores"].size(), 20u);
  model.probes = {samples_with({2, 2})};
  model.probes[0].layers[0].weights = {};
  Options again;
  EXPECT_EQ(nlohmann::json::parse(on_model(model, again).json)["groups"], (std::vector<Index>{1}));
}

TEST(AttentionPathsOnModels, SaysWhatIsMissing) {
  const auto message = [](const Probe& probe) -> std::string {
    ProbedModel model;
    model.probes = {probe};
    try {
      Options options;
      on_model(model, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  Probe probe = samples_with({2});
  probe.tokens = {};
  EXPECT_THAT(message(probe), HasSubstr("tokens before the first layer"));
  probe = samples_with({2});
  probe.split = "test";
  EXPECT_THAT(message(probe), HasSubstr("not probed on the split 'train'"));
  probe = samples_with({2});
  probe.layers[0].weights = {};
  EXPECT_THAT(message(probe), HasSubstr("no layer of the model has weights between tokens"));
  probe.layers.clear();
  EXPECT_THAT(message(probe), HasSubstr("there are no layers"));
}

}  // namespace
}  // namespace saddle::analysis::attention_paths
