#include "saddle/eval/ridge.hpp"

#include <gtest/gtest.h>

#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/eval/samples_test.hpp"

namespace saddle::eval {
namespace {

using Eigen::MatrixXd;

MatrixXd targets_of(std::span<const Index> labels, Index classes) {
  MatrixXd targets = MatrixXd::Constant(static_cast<Index>(labels.size()), classes, -1);
  for (std::size_t i = 0; i < labels.size(); ++i) targets(static_cast<Index>(i), labels[i]) = 1;
  return targets;
}

MatrixXd residual_of(const Ridge& ridge, const Features& x, std::span<const Index> labels, Index classes) {
  return ((x.cast<double>() * ridge.weights).rowwise() + ridge.offset) - targets_of(labels, classes);
}

std::vector<Index> all_but(Index n, Index left_out) {
  std::vector<Index> samples;
  for (Index i = 0; i < n; ++i)
    if (i != left_out) samples.push_back(i);
  return samples;
}

TEST(Ridge, PenaltiesAreTenPowers) {
  const std::vector<double> penalties = ridge_penalties();
  ASSERT_EQ(penalties.size(), 10u);
  EXPECT_DOUBLE_EQ(penalties.front(), 1e-3);
  EXPECT_DOUBLE_EQ(penalties.back(), 1e3);
  for (std::size_t i = 1; i < penalties.size(); ++i)
    EXPECT_NEAR(penalties[i] / penalties[i - 1], std::pow(10, 2.0 / 3), 1e-12);
}

// Fewer and more samples than features, and as many: the gradient of the penalised squares is 0.
TEST(Ridge, SolutionIsStationary) {
  for (const auto& [n, F] : {std::pair<Index, Index>{12, 40}, {40, 12}, {15, 15}, {9, 5000}, {5000, 9}}) {
    const Problem problem(n, F, 3, 1, 1);
    const std::vector<double> penalties{0.01, 3};
    const std::vector<Ridge> found = solve_ridge(problem.x, problem.labels, 3, penalties);
    ASSERT_EQ(found.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(found[i].penalty, penalties[i]);
      const MatrixXd residual = residual_of(found[i], problem.x, problem.labels, 3);
      const MatrixXd gradient = problem.x.cast<double>().transpose() * residual + penalties[i] * found[i].weights;
      EXPECT_LT(gradient.cwiseAbs().maxCoeff(), 1e-8 * static_cast<double>(n)) << n << " " << F;
      EXPECT_LT(residual.colwise().sum().cwiseAbs().maxCoeff(), 1e-9 * static_cast<double>(n)) << n << " " << F;
    }
  }
}

TEST(Ridge, LeaveOneOutIsThatOfFitsWithoutTheSample) {
  const std::vector<double> penalties = ridge_penalties();
  for (const auto& [n, F] : {std::pair<Index, Index>{11, 30}, {30, 11}, {14, 14}}) {
    const Problem problem(n, F, 3, 0.7, 2);
    const std::vector<double> errors = leave_one_out_errors(problem.x, problem.labels, 3, penalties);
    std::vector<double> expected(penalties.size());
    for (Index i = 0; i < n; ++i) {
      const std::vector<Index> others = all_but(n, i);
      const std::vector<Ridge> fits =
          solve_ridge(rows_of(problem.x, others), labels_of(problem.labels, others), 3, penalties);
      const std::vector<Index> own{problem.labels[static_cast<std::size_t>(i)]};
      for (std::size_t p = 0; p < penalties.size(); ++p)
        expected[p] += residual_of(fits[p], problem.x.row(i), own, 3).squaredNorm() / static_cast<double>(3 * n);
    }
    for (std::size_t p = 0; p < penalties.size(); ++p)
      EXPECT_NEAR(errors[p], expected[p], 1e-7 * expected[p]) << n << " " << F << " " << penalties[p];
  }
}

TEST(Ridge, FitTakesThePenaltyWithTheLeastError) {
  const Problem problem(60, 90, 2, 1.5, 3);
  const std::vector<double> penalties = ridge_penalties();
  const std::vector<double> errors = leave_one_out_errors(problem.x, problem.labels, 2, penalties);
  const Ridge ridge = fit_ridge(problem.x, problem.labels, 2, {});
  const auto best = std::min_element(errors.begin(), errors.end()) - errors.begin();
  EXPECT_EQ(ridge.penalty, penalties[static_cast<std::size_t>(best)]);
  EXPECT_GT(best, 0);  // noise asks for more than the least
}

TEST(Ridge, ManySamplesChooseOnThoseHeldOut) {
  const Problem problem(2100, 20, 3, 1, 4);
  data::Split split;
  for (Index i = 0; i < 2100; ++i) (i % 10 == 0 ? split.validation : split.train).push_back(i);
  const std::vector<double> penalties = ridge_penalties();
  const std::vector<Ridge> fits =
      solve_ridge(rows_of(problem.x, split.train), labels_of(problem.labels, split.train), 3, penalties);
  std::size_t best = 0;
  double least = INFINITY;
  for (std::size_t p = 0; p < fits.size(); ++p) {
    const double error =
        residual_of(fits[p], rows_of(problem.x, split.validation), labels_of(problem.labels, split.validation), 3)
            .squaredNorm();
    if (error < least) {
      least = error;
      best = p;
    }
  }
  const Ridge ridge = fit_ridge(problem.x, problem.labels, 3, split);
  EXPECT_EQ(ridge.penalty, penalties[best]);
  // The fit itself is to all of them.
  const Ridge whole = solve_ridge(problem.x, problem.labels, 3, std::vector<double>{penalties[best]}).front();
  EXPECT_EQ(ridge.weights, whole.weights);
}

TEST(Ridge, TellsClassesApart) {
  const Problem train(120, 10, 4, 8, 5), test(80, 10, 4, 8, 6);
  EXPECT_EQ(fit_ridge(train.x, train.labels, 4, {}).predict(test.x), test.labels);
}

TEST(Ridge, BitsDoNotDependOnThreads) {
  const Problem problem(300, 250, 3, 1, 7);
  const int before = threads();
  set_threads(1);
  const Ridge one = fit_ridge(problem.x, problem.labels, 3, {});
  set_threads(3);
  const Ridge three = fit_ridge(problem.x, problem.labels, 3, {});
  set_threads(before);
  EXPECT_EQ(one.weights, three.weights);
  EXPECT_EQ(one.offset, three.offset);
}

TEST(Ridge, OneSampleCannotBeLeftOut) {
  EXPECT_THROW(leave_one_out_errors(Features::Zero(1, 3), std::vector<Index>{0}, 2, ridge_penalties()),
               InvalidArgument);
}

TEST(Ridge, ConstantFeaturesAreNoTrouble) {
  Problem problem(20, 6, 2, 6, 8);
  problem.x.rightCols(3).setConstant(4);
  const Ridge ridge = fit_ridge(problem.x, problem.labels, 2, {});
  EXPECT_EQ(ridge.weights.bottomRows(3).norm(), 0);
  EXPECT_GT(ridge.weights.topRows(3).norm(), 0);
  EXPECT_EQ(ridge.predict(problem.x), problem.labels);
}

TEST(Ridge, WithoutAnyVariationTheCommonestClassWins) {
  const Ridge ridge = fit_ridge(Features::Constant(5, 2, 1), std::vector<Index>{0, 1, 1, 0, 1}, 2, {});
  EXPECT_EQ(ridge.predict(Features::Constant(2, 2, 7)), (std::vector<Index>{1, 1}));
}

}  // namespace
}  // namespace saddle::eval
