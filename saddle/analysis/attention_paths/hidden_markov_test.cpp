// The experiment of the paper with two paths, on sequences of our own random numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "saddle/analysis/attention_paths/attention_paths.hpp"
#include "saddle/base/random.hpp"

namespace saddle::analysis::attention_paths {
namespace {

constexpr Index half = 100, features = 2 * half, tokens = 31, width = features + tokens;
constexpr double beta = 10;

struct Sequences {
  Array<double, 3> x;
  Vector y;
};

// Two hidden states that stay with probability 0.7 in class +1 and 0.3 in class -1. A state shows as sqrt(2) on its
// half of the features, in noise whose part outside the plane of the two states is `perpendicular` times as strong.
// Token 0 marks the start; one feature per token tells its position.
Sequences hidden_markov(Index P, double perpendicular, Stream& stream) {
  Sequences sequences{Array<double, 3>({P, width, tokens}), Vector({P})};
  for (Index p = 0; p < P; ++p) {
    sequences.y(p) = p < P / 2 ? 1 : -1;
    const double stay = p < P / 2 ? 0.7 : 0.3;
    bool plus = stream.uniform() >= 0.5;
    for (Index t = 0; t < tokens; ++t) {
      sequences.x(p, features + t, t) = 1;
      if (t == 0) continue;
      if (t > 1 && stream.uniform() >= stay) plus = !plus;
      std::vector<double> noise(features);
      double mean[2] = {0, 0};  // of either half: the part of the noise in the plane
      for (Index i = 0; i < features; ++i) {
        noise[static_cast<std::size_t>(i)] = stream.normal();
        mean[i / half] += noise[static_cast<std::size_t>(i)] / half;
      }
      for (Index i = 0; i < features; ++i)
        sequences.x(p, i, t) = (plus == (i < half) ? std::sqrt(2.0) : 0) + mean[i / half] +
                               perpendicular * (noise[static_cast<std::size_t>(i)] - mean[i / half]);
    }
  }
  return sequences;
}

// Looks at the token before if both are in the same state, else at the start; and a head that averages.
Array<double, 3> first_layer() {
  Array<double, 3> w({2, width, width});
  for (Index i = 0; i < features; ++i)
    for (Index j = 0; j < features; ++j)
      w(0, i, j) = beta * 2 / (4.0 * half * half) * ((i < half) == (j < half) ? 1 : -1);
  for (Index t = 1; t < tokens; ++t) {
    w(0, features, features + t) = beta * 1.5;
    if (t + 1 < tokens) w(0, features + t, features + t + 1) = beta;
  }
  return w;
}

TEST(HiddenMarkov, NarrowNetworksCombineGoodAndDenoisingPath) {
  Stream train_stream(0, "train"), test_stream(0, "test");
  const Sequences train = hidden_markov(100, 5, train_stream), test = hidden_markov(400, 5, test_stream);
  const Array<double, 3> w1 = first_layer(), w2({1, width, width});
  const auto input = [&](const Array<double, 3>& x) {
    return attended_input(x, {attention_from_w(x, w1), attention_from_w(x, w2)}, Readout::average_pooling);
  };
  const auto xi = input(train.x), xi_test = input(test.x);
  const auto accuracy = [&](const Matrix& u) {
    const Prediction prediction = predict(xi, train.y, xi_test, u, 0.01);
    double right = 0;
    for (Index i = 0; i < test.y.size(); ++i) right += prediction.mean(i) * test.y(i) > 0 ? 1 : 0;
    return right / static_cast<double>(test.y.size());
  };
  const auto at_width = [&](Index N) { return minimise(xi, train.y, {{2, 1}, {N, N, N}, {1, 1, 1, 1}, 0.01}); };
  const Minimum narrow = at_width(10), wide = at_width(1000);
  ASSERT_TRUE(narrow.converged);
  ASSERT_TRUE(wide.converged);
  // The official code finds [[2.935, -1.739], [-1.739, 1.257]] on its own sequences.
  EXPECT_NEAR(narrow.u[0](0, 0), 2.9, 0.9);
  EXPECT_NEAR(narrow.u[0](0, 1), -1.7, 0.5);
  EXPECT_NEAR(narrow.u[0](1, 1), 1.3, 0.4);
  // And accuracies of 0.957, 0.857 and, at infinite width, 0.843.
  const double limit = accuracy(gp_order_parameters({{2, 1}, {1, 1, 1}, {1, 1, 1, 1}, 0.01})[0]);
  EXPECT_GT(accuracy(narrow.u[0]), 0.92);
  EXPECT_GT(accuracy(narrow.u[0]), accuracy(wide.u[0]) + 0.05);
  EXPECT_NEAR(accuracy(wide.u[0]), limit, 0.03);
  EXPECT_NEAR(limit, 0.83, 0.05);
}

}  // namespace
}  // namespace saddle::analysis::attention_paths
