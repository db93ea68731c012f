// Explanations with a made-up model as the judge.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "saddle/analysis/causal_discovery/causal_discovery.hpp"
#include "saddle/analysis/causal_discovery/model_explanations_internal.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"

namespace saddle::analysis::causal_discovery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

using Texts = std::map<std::string, std::string>;

// Says class 1 while token `key` is there, else class 0; counts the sets it was asked about.
struct Oracle {
  Index key = 2;
  Index asked = 0;

  Probe probe(Index B, Index H, Index N) {
    Probe probe;
    probe.split = "test";
    ProbedLayer layer;
    layer.attention = "softmax";
    layer.heads = Array<double, 4>({B, H, N, 128});
    layer.weights = Array<double, 4>({B, H, N, N});
    Stream stream(7, "weights");
    for (double& weight : layer.weights) weight = 0.02 + stream.uniform();
    for (Index b = 0; b < B; ++b) {
      probe.samples.push_back(10 + b);
      probe.labels.push_back(0);
      probe.lengths.push_back(N);
    }
    probe.layers = {layer};
    probe.ask = [this](Index, const std::vector<std::vector<Index>>& removed, Removal) {
      Matrix answers({static_cast<Index>(removed.size()), 2});
      for (std::size_t s = 0; s < removed.size(); ++s) {
        ++asked;
        const bool gone = std::find(removed[s].begin(), removed[s].end(), key) != removed[s].end();
        answers(static_cast<Index>(s), gone ? 0 : 1) = 0.9;
        answers(static_cast<Index>(s), gone ? 1 : 0) = 0.1;
      }
      return answers;
    };
    return probe;
  }
};

TEST(ModelExplanations, TheReadoutReadsTheMean) {
  Matrix attention({2, 2});
  attention(0, 0) = 0.25;
  attention(0, 1) = 0.75;
  attention(1, 0) = 1;
  const Matrix whole = with_readout(attention);
  ASSERT_EQ(whole.shape()[0], 3);
  double sum = 0;
  for (Index j = 0; j < 3; ++j) sum += whole(2, j);
  EXPECT_DOUBLE_EQ(sum, 1);
  EXPECT_DOUBLE_EQ(whole(2, 0), 1.25 / 3);
  EXPECT_DOUBLE_EQ(whole(2, 2), 1.0 / 3);
  EXPECT_EQ(whole(0, 2), 0);
}

TEST(ModelExplanations, AnswersAreAskedForOnce) {
  Oracle oracle;
  const Probe probe = oracle.probe(1, 1, 5);
  Judge judge(probe, 0, Removal::pad);
  EXPECT_EQ(judge.predicted(), 1);
  EXPECT_DOUBLE_EQ(judge.probability(), 0.9);
  judge.prepare({{0}, {2}});
  EXPECT_EQ(oracle.asked, 3);
  EXPECT_EQ(judge.without({2}), 0);
  EXPECT_EQ(judge.without({0}), 1);
  EXPECT_EQ(oracle.asked, 3);
  EXPECT_EQ(judge.without({0, 2}), 0);
  EXPECT_EQ(oracle.asked, 4);
}

TEST(ModelExplanations, TryingAllSetsFindsTheToken) {
  Oracle oracle;
  const Probe probe = oracle.probe(1, 1, 5);
  Judge judge(probe, 0, Removal::pad);
  const SearchResult found = search_exhaustively({0, 1, 2, 3, 4}, judge, {});
  EXPECT_TRUE(found.found);
  EXPECT_THAT(found.tokens, ElementsAre(2));
  EXPECT_EQ(found.calls, 5);  // all sets of one token, as CLEANN tries all sets of a size
  EXPECT_EQ(found.becomes, 0);
  const SearchResult among = search_exhaustively({1, 2, 4}, judge, {});
  EXPECT_THAT(among.tokens, ElementsAre(2));
  EXPECT_EQ(among.calls, 3);
  oracle.key = 99;  // nothing changes the prediction
  Judge stubborn(probe, 0, Removal::pad);
  ModelExplainOptions few;
  few.max_calls = 7;
  const SearchResult none = search_exhaustively({0, 1, 2, 3, 4}, stubborn, few);
  EXPECT_FALSE(none.found);
  EXPECT_EQ(none.calls, 7);
  EXPECT_EQ(none.tried, 1);  // of the pairs only two
  few.max_calls = 15;
  EXPECT_EQ(search_exhaustively({0, 1, 2, 3, 4}, stubborn, few).tried, 2);
  EXPECT_EQ(search_exhaustively({0, 1, 2, 3, 4}, stubborn, {}).tried, 5);
}

// The graph may miss the token, but what it finds is right, and no larger than it must be.
TEST(ModelExplanations, WhatTheGraphFindsChangesThePrediction) {
  Oracle oracle;
  const Index H = 4, N = 5;
  const Probe probe = oracle.probe(1, H, N);
  Request request;
  request.samples = 128;
  Index found = 0;
  for (Index h = 0; h < H; ++h) {
    Matrix attention({N, N});
    for (Index i = 0; i < N; ++i)
      for (Index j = 0; j < N; ++j) attention(i, j) = probe.layers[0].weights(0, h, i, j);
    Judge judge(probe, 0, Removal::pad);
    const ModelExplanation head = explain_head(attention, {}, h, request, judge, {});
    EXPECT_EQ(head.answer.input.names.back(), "prediction");
    if (!head.by_graph.found) continue;
    ++found;
    EXPECT_THAT(head.by_graph.tokens, testing::Contains(2));
    EXPECT_EQ(judge.without(head.by_graph.tokens), 0);
    EXPECT_EQ(head.by_graph.calls, static_cast<Index>(head.answer.explanations->candidates.size()));
  }
  EXPECT_GT(found, 0);
}

ProbedModel model(Oracle& oracle, Index samples) { return {"toy", {}, {"no", "yes"}, {oracle.probe(samples, 2, 4)}}; }

TEST(ModelExplanations, AsAnAnalysis) {
  Oracle oracle;
  analysis::Options one(Texts{{"explain", "true"}});
  const Result result = analysis().on_model(model(oracle, 3), one);
  EXPECT_EQ(result.networks.size(), 2U);
  EXPECT_EQ(result.files.at(1).first, "layer0_head1.dot");
  EXPECT_THAT(result.about, HasSubstr("CLEANN"));
  EXPECT_EQ(result.findings.back(), "algorithm: icd, test: fisher_z, alpha: 0.01, n: 256");
  const auto json = nlohmann::json::parse(result.json);
  EXPECT_EQ(json["removal"], "pad");
  EXPECT_EQ(json["samples"].size(), 1U);
  EXPECT_EQ(json["samples"][0]["sample"], 10);
  EXPECT_EQ(json["samples"][0]["all_sets"]["tokens"], std::vector<int>{2});
  EXPECT_EQ(json["ways"].size(), 4U);

  analysis::Options every(Texts{{"explain", "true"}, {"sample", "all"}, {"removal", "close"}, {"max_calls", "50"}});
  const Result all = analysis().on_model(model(oracle, 3), every);
  EXPECT_TRUE(all.networks.empty());
  EXPECT_EQ(all.tables.at(1).rows.size(), 6U);  // three samples, two heads
  EXPECT_EQ(nlohmann::json::parse(all.json)["removal"], "close");
}

// Predictions that some search explained are not counted, and what was not searched is not claimed.
TEST(ModelExplanations, FindingsSayWhatWasSearched) {
  const auto findings = [](Index key, const std::string& max_calls) {
    Oracle oracle;
    oracle.key = key;
    analysis::Options options(Texts{{"explain", "true"}, {"sample", "all"}, {"max_calls", max_calls}});
    return analysis().on_model(model(oracle, 3), options).findings;
  };
  using testing::Contains;
  // One question does not find the token among all sets; the order of weights does.
  EXPECT_THAT(findings(2, "1"), Not(Contains(HasSubstr("No search"))));
  EXPECT_THAT(findings(99, "1"),
              Contains("No search explained 3 of 3 predictions: 1 questions did not reach all single steps."));
  EXPECT_THAT(findings(99, "6"), Contains("No search explained 3 of 3 predictions: all sets of up to 1 step were "
                                          "tried, of larger ones what 6 questions reach."));
  EXPECT_THAT(findings(99, "15"), Contains("No search explained 3 of 3 predictions: all sets of steps were tried."));
}

// Attention of every token to itself alone: nothing hangs together.
TEST(ModelExplanations, AGraphWithoutNeighboursOffersNothing) {
  Oracle oracle;
  ProbedModel apart = model(oracle, 1);
  for (Index h = 0; h < 2; ++h)
    for (Index i = 0; i < 4; ++i)
      for (Index j = 0; j < 4; ++j) apart.probes[0].layers[0].weights(0, h, i, j) = i == j ? 1 : 0;
  analysis::Options options(Texts{{"explain", "true"}, {"samples", "12"}, {"alpha", "0.0001"}});
  const Result result = analysis().on_model(apart, options);
  EXPECT_THAT(result.findings, testing::Contains("In 2 of 2 graphs the prediction has no neighbour: there the graph "
                                                 "offers no set."));
  EXPECT_EQ(result.networks.at(0).title, "Graph of layer 0, head 0, prediction marked");
}

TEST(ModelExplanations, AnExplanationIsMarkedWhereThereIsOne) {
  Oracle oracle;
  analysis::Options options(Texts{{"explain", "true"}});
  const Result result = analysis().on_model(model(oracle, 1), options);
  const auto heads = nlohmann::json::parse(result.json)["samples"][0]["heads"];
  for (std::size_t h = 0; h < heads.size(); ++h)
    EXPECT_EQ(result.networks.at(h).title.find("and explanation") != std::string::npos,
              heads[h]["by_graph"]["found"].get<bool>());
}

// No way to search takes tokens that were not asked about.
TEST(ModelExplanations, AllWaysHaveTheSameCandidates) {
  Oracle oracle;
  analysis::Options some(Texts{{"explain", "true"}, {"nodes", "0,1,3"}});
  const auto sample = nlohmann::json::parse(analysis().on_model(model(oracle, 1), some).json)["samples"][0];
  EXPECT_EQ(sample["all_sets"]["found"], false);  // only token 2 would do
  EXPECT_EQ(sample["all_sets"]["calls"], 7);
  for (const auto& head : sample["heads"]) EXPECT_EQ(head["by_weight"]["found"], false);
}

TEST(ModelExplanations, NeedAModelToAsk) {
  Oracle oracle;
  ProbedModel silent = model(oracle, 1);
  silent.probes[0].ask = {};
  analysis::Options options(Texts{{"explain", "true"}});
  EXPECT_THROW(analysis().on_model(silent, options), NotSupported);
  for (const Texts& wrong : {Texts{{"explain", "true"}, {"removal", "cut"}},
                             Texts{{"explain", "true"}, {"max_calls", "0"}}, Texts{{"max_calls", "5"}}}) {
    analysis::Options given(wrong);
    EXPECT_THROW(analysis().on_model(model(oracle, 1), given), InvalidArgument);
  }
}

}  // namespace
}  // namespace saddle::analysis::causal_discovery
