#include "saddle/analysis/head_redundancy/head_redundancy.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "saddle/base/error.hpp"

namespace saddle::analysis::head_redundancy {
namespace {

// Head h of token n looks along axis h.
Array<double, 4> orthogonal(Index B, Index H, Index N, double size) {
  Array<double, 4> heads({B, H, N, H});
  for (Index b = 0; b < B; ++b)
    for (Index h = 0; h < H; ++h)
      for (Index n = 0; n < N; ++n) heads(b, h, n, h) = size * static_cast<double>(n % 2 == 0 ? 1 : -1);
  return heads;
}

TEST(HeadRedundancy, OrthogonalHeadsLieARootOfTwoApart) {
  const Measures m = measure(orthogonal(2, 3, 4, 5.0), {4, 2});
  EXPECT_NEAR(m.relative, std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(m.distance, 5 * std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(m.deviation, 0, 1e-6);
  EXPECT_NEAR(m.cosine, 0, 1e-12);
  EXPECT_NEAR(m.pairs(0, 2), std::sqrt(2.0), 1e-12);
  EXPECT_EQ(m.pairs(1, 1), 0);
}

TEST(HeadRedundancy, CopiesAreRedundant) {
  Array<double, 4> heads({1, 2, 5, 3});
  for (Index n = 0; n < 5; ++n)
    for (Index e = 0; e < 3; ++e) heads(0, 0, n, e) = heads(0, 1, n, e) = std::sin(static_cast<double>(3 * n + e));
  const Measures m = measure(heads, {5});
  EXPECT_EQ(m.distance, 0);
  EXPECT_NEAR(m.cosine, 1, 1e-12);
  EXPECT_NEAR(m.cka, 1, 1e-12);
  EXPECT_NEAR(m.cosines(1, 0), 1, 1e-12);
  EXPECT_NEAR(m.ckas(0, 1), 1, 1e-12);
}

TEST(HeadRedundancy, LeavesPaddingOut) {
  Array<double, 4> heads = orthogonal(1, 2, 4, 1.0);
  heads(0, 0, 3, 1) = 1e6;
  EXPECT_NEAR(measure(heads, {3}).relative, std::sqrt(2.0), 1e-12);
  EXPECT_THROW(measure(heads, {0}), InvalidArgument);
}

TEST(HeadRedundancy, RefusesWhatIsNoNumber) {
  for (const double wrong : {std::nan(""), HUGE_VAL}) {
    Array<double, 4> heads = orthogonal(1, 2, 4, 1.0);
    heads(0, 1, 3, 0) = wrong;
    EXPECT_THROW(measure(heads, {4}), InvalidArgument);
    EXPECT_NEAR(measure(heads, {3}).relative, std::sqrt(2.0), 1e-12);  // padding may hold anything
  }
}

TEST(HeadRedundancy, OneHeadHasNoPairs) { EXPECT_EQ(measure(orthogonal(1, 1, 3, 1.0), {3}).distance, 0); }

TEST(HeadRedundancy, DescribesAModel) {
  ProbedModel model;
  model.name = "m";
  Probe& probe = model.probes.emplace_back();
  probe.split = "test";
  probe.lengths = {4};
  probe.layers.push_back({"softmax", orthogonal(1, 2, 4, 1.0), {}, {}});
  Options options;
  const Result result = analysis().on_model(model, options);
  ASSERT_EQ(result.tables.size(), 1u);
  EXPECT_EQ(result.tables[0].rows.at(0).at(6), "1.414");
  EXPECT_EQ(result.maps.size(), 1u);
  Options wrong(std::map<std::string, std::string>{{"heads", "2"}});
  EXPECT_THROW(analysis().on_model(model, wrong), InvalidArgument);
}

TEST(HeadRedundancy, OneHeadIsNotCalledRedundant) {
  ProbedModel model;
  Probe& probe = model.probes.emplace_back();
  probe.split = "test";
  probe.lengths = {4};
  probe.layers.push_back({"softmax", orthogonal(1, 1, 4, 1.0), {}, {}});
  Options options;
  const Result alone = analysis().on_model(model, options);
  EXPECT_TRUE(alone.figures.empty());
  EXPECT_TRUE(alone.charts.empty());
  ASSERT_EQ(alone.findings.size(), 1u);
  EXPECT_NE(alone.findings[0].find("has one head"), std::string::npos);
  // Beside a layer with several heads it does not count.
  probe.layers.push_back({"softmax", orthogonal(1, 3, 4, 1.0), {}, {}});
  Options again;
  EXPECT_NEAR(analysis().on_model(model, again).figures.at(0).second, std::sqrt(2.0), 1e-12);
}

// Heads that are 0 everywhere say nothing: that is no repetition.
TEST(HeadRedundancy, SilentHeadsAreCalledSilent) {
  ProbedModel model;
  Probe& probe = model.probes.emplace_back();
  probe.split = "test";
  probe.lengths = {4};
  probe.layers.push_back({"softmax", Array<double, 4>({1, 3, 4, 2}), {}, {}});
  const auto looked_at = [&] {
    Options options;
    return analysis().on_model(model, options);
  };
  const Result silent = looked_at();
  ASSERT_EQ(silent.findings.size(), 1u);
  EXPECT_NE(silent.findings[0].find("3 heads whose outputs are 0 at every token"), std::string::npos);
  EXPECT_EQ(silent.findings[0].find("repeat"), std::string::npos);
  EXPECT_TRUE(silent.figures.empty());
  EXPECT_TRUE(silent.charts.empty());
  // Among others they are named, and do not count.
  Array<double, 4> heads = orthogonal(1, 4, 4, 5.0);
  for (const Index h : {1, 3})
    for (Index n = 0; n < 4; ++n) heads(0, h, n, h) = 0;
  const Measures m = measure(heads, {4});
  EXPECT_EQ(m.silent, (std::vector<Index>{1, 3}));
  EXPECT_NEAR(m.norm, 5, 1e-12);
  EXPECT_NEAR(m.relative, std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(m.pairs(0, 1), 1, 1e-12);
  EXPECT_EQ(m.pairs(1, 3), 0);
  probe.layers[0].heads = heads;
  const Result both = looked_at();
  ASSERT_EQ(both.findings.size(), 2u);
  EXPECT_NE(both.findings[0].find("in heads 1, 3: the others are compared"), std::string::npos);
  EXPECT_NE(both.findings[1].find("say different things"), std::string::npos);
  for (Index n = 0; n < 4; ++n) probe.layers[0].heads(0, 2, n, 2) = 0;
  EXPECT_NE(looked_at().findings.at(0).find("the one that is left"), std::string::npos);
}

// Models beside each other: the share of the first one's distance is what an attention changes.
TEST(HeadRedundancy, ShowsWhatAnAttentionChanges) {
  const auto result_of = [](double overlap) {
    ProbedModel model;
    Probe& probe = model.probes.emplace_back();
    probe.split = "test";
    probe.lengths = {4};
    Array<double, 4> heads = orthogonal(1, 2, 4, 1.0);
    for (Index n = 0; n < 4; ++n) heads(0, 1, n, 0) += overlap * heads(0, 0, n, 0);
    probe.layers.push_back({"softmax", heads, {}, {}});
    Options options;
    return analysis().on_model(model, options);
  };
  const Result both = beside({{"softmax", result_of(2)}, {"softmax+bn", result_of(0)}});
  ASSERT_FALSE(both.tables.empty());
  EXPECT_EQ(both.tables[0].rows.at(0).at(2), "1.00");
  EXPECT_GT(std::stod(both.tables[0].rows.at(1).at(2)), 1.1);
  EXPECT_EQ(both.charts.at(0).curves.size(), 2u);
}

}  // namespace
}  // namespace saddle::analysis::head_redundancy
