#include "saddle/analysis/spectrum/spectrum.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace saddle::analysis::spectrum
