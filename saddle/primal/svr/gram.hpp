// The Gram matrix of an SVR, with everything about it that all channels share.
#pragma once

#include <string>

#include "saddle/base/view.hpp"
#include "saddle/primal/svr/system.hpp"

namespace saddle::primal::svr {

struct Gram {
  explicit Gram(MatrixView gram);

  Eigen::MatrixXd G;       // [M,M] symmetric
  bool low_rank = false;   // the rank R of G is well below M
  Eigen::MatrixXd factor;  // [M,R] with G = factor factor^T up to rounding, if low_rank
  std::string defect;      // why G is no Gram matrix, empty if it is one
};

}  // namespace saddle::primal::svr
