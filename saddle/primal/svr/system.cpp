#include "saddle/primal/svr/system.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace saddle::primal::svr {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Factors A [N,N] scaled to the diagonal 1 + ridge by 1/root [N] on both sides.
template <class Matrix>
bool factor_scaled(const MatrixXd& A, const VectorXd& root, double ridge, Eigen::LLT<Matrix>& llt) {
  using Scalar = typename Matrix::Scalar;
  const VectorXd inverse = root.cwiseInverse();
  Matrix scaled(A.rows(), A.cols());
  for (Index j = 0; j < A.cols(); ++j) {
    scaled.col(j) = (inverse[j] * A.col(j).cwiseProduct(inverse)).template cast<Scalar>();
  }
  scaled.diagonal().setConstant(static_cast<Scalar>(1 + ridge));
  llt.compute(scaled);
  return llt.info() == Eigen::Success;
}

}  // namespace

void System::factor(VectorXd d) {
  d_ = std::move(d);
  factor_as(low_rank_ ? Kind::woodbury : Kind::single);
}

void System::factor_as(Kind kind) {
  kind_ = kind;
  const double largest = A_.diagonal().maxCoeff();
  const double floor = largest > 0 ? 1e-16 * largest : 1e-16;
  if (kind == Kind::woodbury) {
    root_ = d_.cwiseMax(floor).cwiseSqrt();
    scaled_ = root_.cwiseInverse().asDiagonal() * *low_rank_;
    MatrixXd inner = MatrixXd::Identity(scaled_.cols(), scaled_.cols());
    if (scaled_.cols() > 0) inner.selfadjointView<Eigen::Lower>().rankUpdate(scaled_.transpose());
    llt_.compute(inner);
  } else {
    root_ = (A_.diagonal() + d_).cwiseMax(floor).cwiseSqrt();
    if (kind == Kind::single) {
      if (!factor_scaled(A_, root_, 0, llt_single_)) return factor_as(Kind::full);
    } else {
      // Rounding can make a singular matrix indefinite; refinement takes the ridge out again.
      double ridge = 1e-15;
      while (!factor_scaled(A_, root_, ridge, llt_) && ridge < 1) ridge *= 10;
    }
  }
  if (bias_) inverse_ones_ = apply_inverse(VectorXd::Ones(d_.size()));
}

VectorXd System::apply_inverse(const VectorXd& rhs) const {
  VectorXd x = rhs.cwiseQuotient(root_);
  switch (kind_) {
    case Kind::single: x = llt_single_.solve(x.cast<float>()).cast<double>(); break;
    case Kind::full: llt_.solveInPlace(x); break;
    case Kind::woodbury:
      if (scaled_.cols() > 0) x -= scaled_ * llt_.solve(scaled_.transpose() * x);
      break;
  }
  return x.cwiseQuotient(root_);
}

void System::solve(const VectorXd& rhs, double total, double accuracy, VectorXd& x, double& t) {
  const bool good = refine(rhs, total, accuracy, x, t);
  if (good || kind_ != Kind::single) return;
  factor_as(Kind::full);
  refine(rhs, total, accuracy, x, t);
}

bool System::refine(const VectorXd& rhs, double total, double accuracy, VectorXd& x, double& t) const {
  x = VectorXd::Zero(rhs.size());
  t = 0;
  // In the scaling of the factor, in which large rows do not hide small ones.
  const double target = accuracy * rhs.cwiseQuotient(root_).lpNorm<Eigen::Infinity>();
  VectorXd residual = rhs;
  double missing = total;
  double previous = std::numeric_limits<double>::infinity();
  for (int pass = 0; pass < 8; ++pass) {
    VectorXd step = apply_inverse(residual);
    double dt = 0;
    if (bias_) {
      dt = (step.sum() - missing) / inverse_ones_.sum();
      step -= dt * inverse_ones_;
    }
    x += step;
    t += dt;
    residual = rhs - A_ * x - d_.cwiseProduct(x);
    residual.array() -= t;
    missing = total - x.sum();
    const double error = residual.cwiseQuotient(root_).lpNorm<Eigen::Infinity>();
    if (error <= target) return true;
    if (!(error < 0.5 * previous)) {
      if (!(error < previous)) x -= step, t -= dt;
      return false;
    }
    previous = error;
  }
  return false;
}

}  // namespace saddle::primal::svr
