#include "saddle/eval/logistic.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "saddle/base/parallel.hpp"
#include "saddle/eval/samples_test.hpp"

namespace saddle::eval {
namespace {

double objective(const Logistic& model, const Problem& problem) {
  return log_loss(model, problem.x, problem.labels) +
         model.penalty / 2 * model.weights.topRows(problem.x.cols()).squaredNorm();
}

TEST(Logistic, LossOfNothingLearntIsThatOfChance) {
  const Problem problem(30, 4, 3, 1, 1);
  const Logistic model{Eigen::MatrixXd::Zero(5, 3), 0};
  EXPECT_NEAR(log_loss(model, problem.x, problem.labels), std::log(3), 1e-12);
}

TEST(Logistic, LossStaysFiniteForLargeScores) {
  const Problem problem(30, 4, 3, 1, 1);
  EXPECT_TRUE(std::isfinite(log_loss({Eigen::MatrixXd::Random(5, 3) * 1e4, 0}, problem.x, problem.labels)));
}

// A minimum of a convex function: whichever weight is moved, either way, the value rises.
TEST(Logistic, SolutionIsTheMinimum) {
  const Problem problem(700, 6, 3, 1, 2);
  for (const double penalty : {1e-1, 1e-3}) {
    const Logistic found = solve_logistic(problem.x, problem.labels, 3, penalty);
    const double value = objective(found, problem);
    for (Index i = 0; i < found.weights.rows(); ++i)
      for (Index c = 0; c < 3; ++c)
        for (const double step : {-0.02, 0.02}) {
          Logistic moved = found;
          moved.weights(i, c) += step;
          EXPECT_GT(objective(moved, problem), value) << i << " " << c << " " << step;
        }
  }
}

TEST(Logistic, WithoutInformationTheOffsetIsTheShareOfEachClass) {
  Problem problem(600, 2, 2, 0, 3);
  problem.x.setZero();
  for (std::size_t i = 0; i < 150; ++i) problem.labels[2 * i + 1] = 0;  // 450 of class 0, 150 of class 1
  const Logistic found = solve_logistic(problem.x, problem.labels, 2, 0.1);
  EXPECT_NEAR(found.weights(2, 0) - found.weights(2, 1), std::log(3), 1e-3);
  EXPECT_EQ(found.weights.topRows(2).norm(), 0);
}

TEST(Logistic, GoesOnFromWhatWasFound) {
  const Problem problem(500, 5, 2, 1, 4);
  const Logistic cold = solve_logistic(problem.x, problem.labels, 2, 1e-3);
  const Logistic warm =
      solve_logistic(problem.x, problem.labels, 2, 1e-3, solve_logistic(problem.x, problem.labels, 2, 1e-1));
  EXPECT_NEAR(objective(cold, problem), objective(warm, problem), 1e-6);
}

TEST(Logistic, FitChoosesOnTheSamplesHeldOut) {
  const Problem train(400, 60, 2, 3, 5), test(300, 60, 2, 3, 6);
  data::Split split;
  for (Index i = 0; i < 400; ++i) (i % 20 < 2 ? split.validation : split.train).push_back(i);
  const Logistic found = fit_logistic(train.x, train.labels, 2, split);
  EXPECT_GT(found.penalty, 1e-6);  // 60 features of noise ask for some
  std::size_t right = 0;
  const std::vector<Index> predicted = found.predict(test.x);
  for (std::size_t i = 0; i < predicted.size(); ++i) right += predicted[i] == test.labels[i] ? 1 : 0;
  EXPECT_GT(right, 285u);
}

TEST(Logistic, NothingHeldOutTakesTheStrongestPenalty) {
  const Problem problem(20, 3, 2, 3, 7);
  data::Split split;
  for (Index i = 0; i < 20; ++i) split.train.push_back(i);
  EXPECT_EQ(fit_logistic(problem.x, problem.labels, 2, split).penalty, 0.1);
}

TEST(Logistic, BitsDoNotDependOnThreads) {
  const Problem problem(1500, 8, 3, 1, 8);
  const int before = threads();
  set_threads(1);
  const Logistic one = solve_logistic(problem.x, problem.labels, 3, 1e-3);
  set_threads(3);
  const Logistic three = solve_logistic(problem.x, problem.labels, 3, 1e-3);
  set_threads(before);
  EXPECT_EQ(one.weights, three.weights);
}

}  // namespace
}  // namespace saddle::eval
