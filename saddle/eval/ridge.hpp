// Ridge classifier: linear regression on targets -1 and +1, one class against the rest, with a penalty that the
// training samples choose.
#pragma once

#include "saddle/eval/features.hpp"

namespace saddle::eval {

struct Ridge {
  Eigen::MatrixXd weights;    // [F, classes]
  Eigen::RowVectorXd offset;  // [classes]
  double penalty = 0;

  // The class with the largest score, the first of equals, for every row.
  std::vector<Index> predict(const Features& x) const;
};

// Ten values from 0.001 to 1000, equal quotients.
std::vector<double> ridge_penalties();

// The minimum of |X W + offset - targets|^2 + penalty |W|^2 for every penalty. The offset is not penalised.
std::vector<Ridge> solve_ridge(const Features& x, std::span<const Index> labels, Index classes,
                               std::span<const double> penalties);

// For every penalty the mean squared error at a sample that was left out of the fit, over all samples and classes:
// exact, from one decomposition. A single sample can not be left out: two or more.
std::vector<double> leave_one_out_errors(const Features& x, std::span<const Index> labels, Index classes,
                                         std::span<const double> penalties);

// Fitted to all samples, with the best of ridge_penalties(): by leave-one-out up to 2000 samples, by the squared error
// on split.validation of fits to split.train above, where leave-one-out gets slow and a part is enough.
Ridge fit_ridge(const Features& x, std::span<const Index> labels, Index classes, const data::Split& split);

}  // namespace saddle::eval
