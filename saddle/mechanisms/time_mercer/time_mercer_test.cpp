#include "saddle/mechanisms/time_mercer/time_mercer.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "saddle/base/error.hpp"

namespace saddle::mechanisms::time_mercer {
namespace {

using tape::Value;

// Harmonics are periods of their own: flex with 1/(j w) computes what code does.
TEST(TimeMercer, FlexWithHarmonicPeriodsIsCode) {
  const Value t({1, 3}, {0.0, 1.5, 40.0}), coef({2, 4}, {0.1, 0.2, 0.3, 0.4, -0.5, 0.6, 0.7, -0.8}), bias({2}, {1, 2});
  const double w = std::pow(10.0, -0.5);
  const Value code =
      Mercer{.degree = 2}.reference(t, {{"exponent", Value({2}, {0.0, 0.5})}, {"coef", coef}, {"bias", bias}});
  const Value flex = Mercer{.degree = 2, .variant = Variant::flex}.reference(
      t, {{"period", Value({2, 2}, {1.0, 0.5, 1 / w, 0.5 / w})}, {"coef", coef}, {"bias", bias}});
  ASSERT_EQ(code.shape(), (Shape{1, 3, 2}));
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(code.data()[i], flex.data()[i], 1e-13);
  EXPECT_NEAR(code.data()[0], 0.3 + 0.4 + 1, 1e-15);  // at time 0 sines are 0
}

TEST(TimeMercer, WidthsFit) {
  EXPECT_EQ(Mercer{}.frequencies(32), 32);
  const Mercer paper{.degree = 2, .variant = Variant::paper};
  EXPECT_EQ(paper.frequencies(15), 3);
  EXPECT_THROW(paper.frequencies(16), InvalidArgument);
  EXPECT_THROW(Mercer{.degree = 0}.frequencies(4), InvalidArgument);
  EXPECT_THROW(Mercer{}.frequencies(0), InvalidArgument);
}

TEST(TimeMercer, ACaseMustAgreeWithItself) {
  TensorFile golden;
  golden.metadata = {{"mechanism", "time-mercer"}, {"degree", "1"}, {"time_dim", "4"}, {"frequencies", "3"}};
  golden.tensors.emplace("in.t", Tensor(DType::f64, {1, 1}));
  golden.tensors.emplace("out.phi", Tensor(DType::f64, {1, 1, 4}));
  const auto report = check_golden(golden, "file");
  EXPECT_NE(report.problem.find("4 base frequencies, the case says 3"), std::string::npos) << report.problem;
}

}  // namespace
}  // namespace saddle::mechanisms::time_mercer
