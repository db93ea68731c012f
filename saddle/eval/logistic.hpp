// Multinomial logistic regression with a squared penalty on the weights.
#pragma once

#include "saddle/eval/ridge.hpp"

namespace saddle::eval {

struct Logistic {
  Eigen::MatrixXd weights;  // [F + 1, classes]; the last row is the offset
  double penalty = 0;

  std::vector<Index> predict(const Features& x) const;
};

// Mean log loss of the samples.
double log_loss(const Logistic& model, const Features& x, std::span<const Index> labels);

// The minimum of log loss + penalty / 2 |weights|^2, the offset not penalised, by L-BFGS; it goes on from `start` if
// that has weights. Features should have similar scales.
Logistic solve_logistic(const Features& x, std::span<const Index> labels, Index classes, double penalty,
                        const Logistic& start = {});

// Fitted to all samples, with the one of the penalties 0.1, 0.01, .. 1e-6 whose fit to split.train has the least log
// loss on split.validation.
Logistic fit_logistic(const Features& x, std::span<const Index> labels, Index classes, const data::Split& split);

}  // namespace saddle::eval
