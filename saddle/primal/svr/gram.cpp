#include "saddle/primal/svr/gram.hpp"

#include <algorithm>
#include <cmath>

namespace saddle::primal::svr {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Errors in the entries of a Gram matrix up to this share of its largest entry count as rounding.
constexpr double gram_rounding = 1e-9;

// Pivoted Cholesky factor [M,R] of G [M,M], or a matrix without rows as soon as R exceeds max_rank.
MatrixXd low_rank_factor(const MatrixXd& G, double scale, Index max_rank) {
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> L(G.rows(), max_rank);
  VectorXd rest = G.diagonal();
  for (Index rank = 0;; ++rank) {
    Index pivot = 0;
    if (rest.maxCoeff(&pivot) <= 1e-14 * scale) return L.leftCols(rank);
    if (rank == max_rank) return {};
    VectorXd column = G.col(pivot);
    column.noalias() -= L.leftCols(rank) * L.row(pivot).head(rank).transpose();
    column /= std::sqrt(rest[pivot]);
    L.col(rank) = column;
    rest -= column.cwiseAbs2();
    rest[pivot] = 0;
  }
}

bool equals_product(const MatrixXd& G, const MatrixXd& L, double tolerance) {
  for (Index j = 0; j < G.cols(); ++j) {
    VectorXd error = G.col(j);
    if (L.cols() > 0) error.noalias() -= L * L.row(j).transpose();
    if (error.lpNorm<Eigen::Infinity>() > tolerance) return false;
  }
  return true;
}

bool has_cholesky(MatrixXd G, double shift) {
  G.diagonal().array() += shift;
  return Eigen::LLT<Eigen::Ref<MatrixXd>>(G).info() == Eigen::Success;
}

}  // namespace

Gram::Gram(MatrixView gram) {
  const Index M = gram.shape[0];
  G.resize(M, M);
  double scale = 0, asymmetry = 0;
  for (Index j = 0; j < M; ++j) {
    for (Index i = 0; i <= j; ++i) {
      const double upper = gram(i, j), lower = gram(j, i);
      G(i, j) = G(j, i) = 0.5 * upper + 0.5 * lower;
      scale = std::max({scale, std::abs(upper), std::abs(lower)});
      asymmetry = std::max(asymmetry, std::abs(upper - lower));
    }
  }
  const double tolerance = gram_rounding * scale;
  if (asymmetry > tolerance) {
    defect = "the Gram matrix is not symmetric";
    return;
  }
  factor = low_rank_factor(G, scale, M / 3);
  low_rank = factor.rows() == M;
  if (low_rank ? !equals_product(G, factor, tolerance) : !has_cholesky(G, tolerance)) {
    defect = "the Gram matrix has a negative eigenvalue";
  }
}

}  // namespace saddle::primal::svr
