// Mehrotra's predictor-corrector interior point method for one channel of the SVR dual.
#pragma once

#include <vector>

#include "saddle/primal/svr/channel.hpp"

namespace saddle::primal::svr {

// The iterate is u = (a, a~) in (0, C), stacked as [2M], with multipliers z of u >= 0 and s of u <= C. At the solution
// s is the slack xi and z the slack of the tube constraint.
class InteriorPoint {
 public:
  explicit InteriorPoint(const Problem& problem);

  // One predictor-corrector iteration. False when rounding leaves no step to take.
  bool step();

  Eigen::VectorXd beta() const;  // [M]
  double b() const { return b_; }
  double gap() const;                // complementarity relative to the objective, in (0, 1)
  std::vector<State> guess() const;  // [M]

 private:
  using Array = Eigen::ArrayXd;
  struct Direction {
    Array u, z, s;  // [2M]
    double b = 0;
  };
  // The Newton direction towards u z = target_z [2M] and (C - u) s = target_s [2M].
  Direction newton(const Array& target_z, const Array& target_s);
  double longest_step(const Direction& d) const;
  double complementarity() const;
  double complementarity(const Direction& d, double length) const;

  const Problem& problem_;
  System system_;
  double size_ = 0;  // of the residuals at the start
  Array u_, z_, s_;  // [2M]
  double b_ = 0;
  Array dual_residual_;  // [2M]
  Array theta_, shift_;  // [2M], [M] diagonals of the Newton system in u and in beta
};

}  // namespace saddle::primal::svr
