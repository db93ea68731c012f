#include "saddle/mechanisms/time_bochner/time_bochner.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "saddle/base/error.hpp"

namespace saddle::mechanisms::time_bochner {
namespace {

using tape::Value;

// <phi(t1),phi(t2)> of the paper is the mean of cos(w (t1 - t2)): moving both times changes nothing.
TEST(TimeBochner, ProductsDependOnTheDifferenceAlone) {
  const Bochner paper{Variant::paper};
  const std::vector<double> omega{0.3, 1.7, 0.01};
  const auto product = [&](double a, double b) {
    const Value phi = paper.reference(Value({1, 2}, {a, b}), {}, {{"omega", Value({3}, omega)}});
    double sum = 0;
    for (Index i = 0; i < 6; ++i) sum += phi.data()[i] * phi.data()[6 + i];
    return sum;
  };
  double expected = 0;
  for (const double w : omega) expected += std::cos(w * 4) / 3;
  EXPECT_NEAR(product(1, 5), expected, 1e-14);
  EXPECT_NEAR(product(101, 105), expected, 1e-12);
  EXPECT_NEAR(product(7, 7), 1, 1e-14);
}

TEST(TimeBochner, LogNormalKeepsItsScaleWithinBounds) {
  const Bochner flow{Variant::log_normal};
  EXPECT_EQ(flow.sample(), "eps");
  const auto phi = [&](double log_scale) {
    return flow.reference(Value({1, 1}, {1.0}), Value({2}, {0.1, -0.2}),
                          {{"shift", Value({1}, {0.5})}, {"log_scale", Value({1}, {log_scale})}});
  };
  const double w = std::exp(0.5 + std::exp(-1.0) * 0.1);
  EXPECT_NEAR(phi(-1).data()[0], std::sin(w), 1e-14);
  EXPECT_NEAR(phi(-1).data()[2], std::cos(w), 1e-14);
  EXPECT_EQ(phi(7).data(), phi(3).data());
  EXPECT_NE(phi(2).data(), phi(3).data());
}

TEST(TimeBochner, NeedsAnEvenWidth) {
  EXPECT_NO_THROW(Bochner{}.check(4));
  EXPECT_THROW(Bochner{}.check(5), InvalidArgument);
  EXPECT_THROW(Bochner{}.check(0), InvalidArgument);
}

TEST(TimeBochner, AMalformedCaseIsAProblemOfItsReport) {
  TensorFile golden;
  golden.metadata = {{"mechanism", "time-bochner"}, {"variant", "none"}};
  golden.tensors.emplace("in.t", Tensor(DType::f64, {1, 1}));
  const auto unknown = check_golden(golden, "file");
  EXPECT_FALSE(unknown.passed());
  EXPECT_NE(unknown.problem.find("invcdf-mlp"), std::string::npos) << unknown.problem;
  golden.metadata["variant"] = "normal";
  golden.tensors.emplace("out.phi", Tensor(DType::f64, {1, 1, 2}));
  EXPECT_NE(check_golden(golden, "file").problem.find("in.eps"), std::string::npos);
}

}  // namespace
}  // namespace saddle::mechanisms::time_bochner
