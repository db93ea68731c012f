#include "saddle/analysis/attention_paths/posterior.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"

namespace saddle::analysis::attention_paths {
namespace {

using testing::ElementsAre;

template <int Rank>
Array<double, Rank> gaussian(Stream& stream, std::array<Index, Rank> shape) {
  Array<double, Rank> values(shape);
  for (double& value : values) value = stream.normal();
  return values;
}

// Paths are all that attention leaves of the input, with and without some heads.
TEST(PosteriorNetworks, PathsGiveTheOutputOfTheNetwork) {
  Stream stream(1, "paths");
  const auto x = gaussian<3>(stream, {4, 3, 5});
  const std::vector<Attention> attention{attention_from_w(x, gaussian<3>(stream, {2, 3, 3})),
                                         attention_from_w(x, gaussian<3>(stream, {3, 3, 3}))};
  const NetworkWeights weights{gaussian<2>(stream, {6, 3}),
                               {gaussian<3>(stream, {2, 4, 6}), gaussian<3>(stream, {3, 5, 4})},
                               gaussian<1>(stream, {5})};
  const auto xi = attended_input(x, attention, Readout::last_token);
  for (const Kept& kept : {Kept{{true, true}, {true, true, true}}, Kept{{false, true}, {true, false, true}}}) {
    const NetworkWeights own = with_heads(weights, kept);
    const Vector whole = network_output(own, x, attention, Readout::last_token), paths = network_output(own, xi);
    for (Index p = 0; p < 4; ++p) EXPECT_NEAR(paths(p), whole(p), 1e-12);
  }
  EXPECT_THROW(network_output(weights, gaussian<3>(stream, {4, 3, 5})), InvalidArgument);
}

// A layer that loses heads is divided by the root of those that it has.
TEST(PosteriorNetworks, SmallerLayersAreRescaled) {
  Stream stream(2, "rescale");
  NetworkWeights weights{gaussian<2>(stream, {2, 2}), {gaussian<3>(stream, {4, 2, 2})}, gaussian<1>(stream, {2})};
  const NetworkWeights one = with_heads(weights, {{false, false, true, false}});
  EXPECT_EQ(one.v[0](0, 1, 1), 0);
  EXPECT_NEAR(one.v[0](2, 1, 1), 2 * weights.v[0](2, 1, 1), 1e-15);
  EXPECT_THROW(with_heads(weights, {{false, false, false, false}}), InvalidArgument);
  EXPECT_THROW(with_heads(weights, {{true, true}}), InvalidArgument);
  EXPECT_EQ(head_norms(one)[1], 0);
}

TEST(PosteriorNetworks, HeadsGoUpTheScoresAndEachLayerKeepsOne) {
  const std::vector<Kept> all = removals({0.3, 0.1, 0.9, 0.2, 0.8}, {2, 3});
  ASSERT_EQ(all.size(), 4u);
  EXPECT_THAT(all[1], ElementsAre(ElementsAre(true, false), ElementsAre(true, true, true)));
  EXPECT_THAT(all[2], ElementsAre(ElementsAre(true, false), ElementsAre(true, false, true)));
  EXPECT_THAT(all[3], ElementsAre(ElementsAre(true, false), ElementsAre(true, false, false)));
  EXPECT_THROW(removals({1, 2}, {2, 3}), InvalidArgument);
}

// The theory says what the order parameter of the draws is on average: checked where labels hardly speak, so that it is
// that of the prior, and where they do by what they ask for.
TEST(PosteriorNetworks, DrawsFollowThePosterior) {
  Stream stream(3, "draws");
  const auto xi = gaussian<3>(stream, {6, 4, 4});
  Vector y({6});
  for (Index p = 0; p < 6; ++p) y(p) = p % 2 == 0 ? 1 : -1;
  Prior prior{{2, 2}, {8, 8, 8}, {1, 1, 1, 1}, 1e6};
  SampleOptions options;
  options.networks = 300;
  options.descent = options.trajectories = 0;
  options.steps = 6;  // a quarter of a turn: draws of the prior hardly depend on each other
  options.size = 0.26;
  const Matrix u = sampled_order_parameter(sample_networks(xi, y, prior, stream, options));
  for (Index i = 0; i < 4; ++i)
    for (Index j = 0; j < 4; ++j) EXPECT_NEAR(u(i, j), i == j ? 1 : 0, 0.3) << i << " " << j;

  prior.temperature = 0.05;
  options = {};
  options.steps = 60;
  double wrong = 0;
  for (const NetworkWeights& network : sample_networks(xi, y, prior, stream, options)) {
    const Vector output = network_output(network, xi);
    for (Index p = 0; p < 6; ++p) wrong += (output(p) - y(p)) * (output(p) - y(p)) / 60;
  }
  EXPECT_GT(wrong, 0.005);
  EXPECT_LT(wrong, 0.15);
  prior.temperature = 0;
  EXPECT_THROW(sample_networks(xi, y, prior, stream), InvalidArgument);
  prior.temperature = 0.05;
  EXPECT_THROW(sample_networks(xi, Vector({5}), prior, stream), InvalidArgument);
  prior.variances[0] = 2;
  EXPECT_THROW(sample_networks(xi, y, prior, stream), InvalidArgument);
}

// On its own network the theory's score knows which heads can go.
TEST(AttentionPathsExample, TheScoreIsBetterThanChance) {
  Options options(std::map<std::string, std::string>{{"seeds", "1"}, {"networks", "4"}, {"tests", "120"}});
  const Result result = analysis().example(options);
  const auto document = nlohmann::json::parse(result.json);
  const auto mean = [&](const char* what, const char* by, int step) {
    return document[what][by][step]["mean"].get<double>();
  };
  EXPECT_EQ(document["predictor"]["theory"].size(), 7u);
  for (const char* by : {"theory", "magnitude", "random"})
    EXPECT_EQ(mean("predictor", by, 0), mean("predictor", "theory", 0));
  EXPECT_GT(mean("predictor", "theory", 0), 88);
  // Four of eight heads can go.
  EXPECT_GT(mean("predictor", "theory", 4), mean("predictor", "theory", 0) - 5);
  EXPECT_GT(mean("predictor", "theory", 4), mean("predictor", "random", 4) + 5);
  // The heads that the task needs have the largest scores of their layers.
  const auto& scores = document["scores"];
  for (int h = 1; h < 4; ++h) {
    EXPECT_GT(scores[0], scores[h]);
    EXPECT_GT(scores[4], scores[4 + h]);
  }
  ASSERT_EQ(result.findings.size(), 2u);
  Options wrong(std::map<std::string, std::string>{{"seeds", "0"}});
  EXPECT_THROW(analysis().example(wrong), InvalidArgument);
}

}  // namespace
}  // namespace saddle::analysis::attention_paths
