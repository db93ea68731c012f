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
}

TEST(HeadRedundancy, LeavesPaddingOut) {
  Array<double, 4> heads = orthogonal(1, 2, 4, 1.0);
  heads(0, 0, 3, 1) = 1e6;
  EXPECT_NEAR(measure(heads, {3}).relative, std::sqrt(2.0), 1e-12);
  EXPECT_THROW(measure(heads, {0}), InvalidArgument);
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

}  // namespace
}  // namespace saddle::analysis::head_redundancy
