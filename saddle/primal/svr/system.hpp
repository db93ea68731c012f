// The one kind of linear system an SVR solve needs.
#pragma once

// Channels are the parallel axis: products split among threads inside Eigen would make bits depend on their number.
#ifndef EIGEN_DONT_PARALLELIZE
#define EIGEN_DONT_PARALLELIZE
#endif
#include <Eigen/Cholesky>
#include <Eigen/Core>

namespace saddle::primal::svr {

// Solves (A + diag(d)) x + t e = rhs, sum(x) = total, for positive semidefinite A [N,N] and e all ones. Without bias
// t = 0 and the sum is free. The factor is in single precision as long as refinement can make up for it: an
// iteration of a solver needs a good direction, not an exact one.
class System {
 public:
  // `low_rank` [N,R], if given, has A = low_rank low_rank^T; d must then be positive. Both matrices must outlive this.
  System(const Eigen::MatrixXd& A, bool bias, const Eigen::MatrixXd* low_rank = nullptr)
      : A_(A), bias_(bias), low_rank_(low_rank) {}

  // d [N], not negative. A singular system is fine as long as it is consistent.
  void factor(Eigen::VectorXd d);
  // rhs, x [N]. Refines until the residual is `accuracy` relative to rhs, or stops shrinking.
  void solve(const Eigen::VectorXd& rhs, double total, double accuracy, Eigen::VectorXd& x, double& t);

 private:
  enum class Kind { single, full, woodbury };

  void factor_as(Kind kind);
  Eigen::VectorXd apply_inverse(const Eigen::VectorXd& rhs) const;
  bool refine(const Eigen::VectorXd& rhs, double total, double accuracy, Eigen::VectorXd& x, double& t) const;

  const Eigen::MatrixXd& A_;
  const bool bias_;
  const Eigen::MatrixXd* const low_rank_;
  Kind kind_ = Kind::full;
  Eigen::VectorXd d_;             // [N]
  Eigen::VectorXd root_;          // [N] the matrix is scaled by 1/root on both sides before it is factored
  Eigen::VectorXd inverse_ones_;  // [N] (A + diag(d))^-1 e
  Eigen::MatrixXd scaled_;        // [N,R] low_rank / root
  Eigen::LLT<Eigen::MatrixXf> llt_single_;
  Eigen::LLT<Eigen::MatrixXd> llt_;  // [N,N], or [R,R] of I + scaled^T scaled
};

}  // namespace saddle::primal::svr
