// The experiment of the paper with two paths, on sequences of our own random numbers.
#include "saddle/analysis/attention_paths/hidden_markov.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace saddle::analysis::attention_paths {
namespace {

TEST(HiddenMarkov, NarrowNetworksCombineGoodAndDenoisingPath) {
  Stream train_stream(0, "train"), test_stream(0, "test");
  const auto train = hidden_markov::draw(100, 5, train_stream), test = hidden_markov::draw(400, 5, test_stream);
  const auto w1 = hidden_markov::layer_of({hidden_markov::good_head(), hidden_markov::uniform_head()}),
             w2 = hidden_markov::layer_of({hidden_markov::uniform_head()});
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
