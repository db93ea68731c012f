// Cheap first guess of an SVR solve: ascent along one or two multipliers at a time.
#pragma once

#include <vector>

#include "saddle/primal/svr/channel.hpp"

namespace saddle::primal::svr {

struct Guess {
  bool good = false;          // the ascent came close to the optimum
  std::vector<State> states;  // [M]
  Eigen::VectorXd beta;       // [M]
  double b = 0;
};

// Sequential minimal optimisation from beta = 0. Fast where G is well conditioned, given up early where it is not.
Guess ascend(const Problem& problem);

}  // namespace saddle::primal::svr
