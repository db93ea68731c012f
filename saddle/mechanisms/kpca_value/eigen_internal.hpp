// Arrays of this library as matrices of Eigen, without a copy, and back.
#pragma once

#include <Eigen/Core>
#include <algorithm>

#include "saddle/base/view.hpp"

namespace saddle::mechanisms::kpca_value {

using Dense = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

inline Eigen::Map<const Dense> mapped(const Matrix& x) { return {x.data(), x.shape()[0], x.shape()[1]}; }
inline Eigen::Map<const Eigen::VectorXd> mapped(const Vector& x) { return {x.data(), x.size()}; }

inline Matrix to_matrix(const Dense& x) {
  Matrix result({x.rows(), x.cols()});
  std::copy(x.data(), x.data() + x.size(), result.data());
  return result;
}
inline Vector to_vector(const Eigen::VectorXd& x) {
  Vector result({x.size()});
  std::copy(x.data(), x.data() + x.size(), result.data());
  return result;
}

// (I - J) x: the mean row taken out.
inline Dense without_mean(const Dense& x) { return x.rowwise() - x.colwise().mean(); }
// (I - J) x (I - J)
inline Dense centred_twice(const Dense& x) {
  const Dense rows = without_mean(x);
  return rows.colwise() - rows.rowwise().mean();
}

}  // namespace saddle::mechanisms::kpca_value
