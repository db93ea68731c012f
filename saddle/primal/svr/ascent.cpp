#include "saddle/primal/svr/ascent.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace saddle::primal::svr {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

// Violation of the optimality conditions, relative to the targets, at which the active set can take over.
constexpr double smo_tolerance = 1e-3;
constexpr double smo_never = std::numeric_limits<double>::infinity();

// D(beta) has the slope gain = gradient + up_offset for raising beta_j and loss = gradient + down_offset for lowering
// it; they differ by the kink of epsilon |beta_j|. Raising i and lowering j keeps sum(beta), and b lies between.
class Ascent {
 public:
  explicit Ascent(const Problem& problem)
      : problem_(problem),
        diagonal_(problem.gram.G.diagonal()),
        beta_(VectorXd::Zero(problem.size())),
        gradient_(problem.y),
        up_offset_(VectorXd::Constant(problem.size(), -problem.options.epsilon)),
        down_offset_(VectorXd::Constant(problem.size(), problem.options.epsilon)) {}

  // Takes the best step; false when none gains more than tolerance per unit of length.
  bool step(double tolerance);
  Guess guess() const;

 private:
  double gain(Index j) const { return gradient_[j] + up_offset_[j]; }
  double loss(Index j) const { return gradient_[j] + down_offset_[j]; }
  Index partner(Index raised) const;
  void move(Index j, double length);
  double room_up(Index j) const { return beta_[j] < 0 ? -beta_[j] : problem_.options.C - beta_[j]; }
  double room_down(Index j) const { return beta_[j] > 0 ? beta_[j] : problem_.options.C + beta_[j]; }

  const Problem& problem_;
  const VectorXd diagonal_;           // [M] of G
  VectorXd beta_, gradient_;          // [M] gradient of the smooth part, y - G beta
  VectorXd up_offset_, down_offset_;  // [M]
};

// The key to lower that promises most when `raised` is raised, -1 if overflow hides it.
Index Ascent::partner(Index raised) const {
  const auto column = problem_.gram.G.col(raised);
  const double top = gain(raised), own = diagonal_[raised];
  const double floor = 1e-12 * own + std::numeric_limits<double>::min();
  Index best = -1;
  double most = 0;
  for (Index j = 0; j < beta_.size(); ++j) {
    const double slope = top - loss(j);
    if (slope <= 0) continue;
    const double curvature = std::max(own + diagonal_[j] - 2 * column[j], floor);
    if (slope * slope > most * curvature) {
      most = slope * slope / curvature;
      best = j;
    }
  }
  return best;
}

bool Ascent::step(double tolerance) {
  Index raised = 0, lowered = 0;
  const double top = (gradient_ + up_offset_).maxCoeff(&raised);
  const double bottom = (gradient_ + down_offset_).minCoeff(&lowered);
  const double tiny = std::numeric_limits<double>::min();
  if (!problem_.options.bias) {
    // b = 0 is the partner: whichever key is further outside moves alone.
    const bool up = top >= -bottom;
    const Index j = up ? raised : lowered;
    const double slope = up ? top : -bottom;
    if (!(slope > tolerance)) return false;
    const double length = std::min(slope / std::max(diagonal_[j], tiny), up ? room_up(j) : room_down(j));
    move(j, up ? length : -length);
    return true;
  }
  if (!(top - bottom > tolerance)) return false;
  lowered = partner(raised);
  if (lowered < 0) return false;
  const double curvature = diagonal_[raised] + diagonal_[lowered] - 2 * problem_.gram.G(lowered, raised);
  const double newton = (top - loss(lowered)) / std::max(curvature, tiny);
  const double length = std::min({newton, room_up(raised), room_down(lowered)});
  move(raised, length);
  move(lowered, -length);
  return true;
}

void Ascent::move(Index j, double length) {
  const double C = problem_.options.C, epsilon = problem_.options.epsilon;
  gradient_.noalias() -= length * problem_.gram.G.col(j);
  beta_[j] = std::clamp(beta_[j] + length, -C, C);
  up_offset_[j] = beta_[j] >= C ? -smo_never : beta_[j] >= 0 ? -epsilon : epsilon;
  down_offset_[j] = beta_[j] <= -C ? smo_never : beta_[j] <= 0 ? epsilon : -epsilon;
}

Guess Ascent::guess() const {
  const double C = problem_.options.C;
  Guess out;
  out.beta = beta_;
  if (problem_.options.bias)
    out.b = 0.5 * (gradient_ + up_offset_).maxCoeff() + 0.5 * (gradient_ + down_offset_).minCoeff();
  for (const double x : beta_) {
    if (std::abs(x) >= C) {
      out.states.push_back(x > 0 ? State::at_upper : State::at_lower);
    } else if (problem_.options.epsilon == 0) {
      out.states.push_back(State::positive);
    } else {
      out.states.push_back(x > 0 ? State::positive : x < 0 ? State::negative : State::zero);
    }
  }
  return out;
}

}  // namespace

Guess ascend(const Problem& problem) {
  Ascent ascent(problem);
  const double size = problem.y.lpNorm<Eigen::Infinity>();
  // Beyond this many steps of cost O(M) the interior point method is the faster one.
  const Index limit = 25 * problem.size();
  Index steps = 0;
  while (steps < limit && ascent.step(smo_tolerance * size)) ++steps;
  Guess guess = ascent.guess();
  guess.good = steps < limit;
  return guess;
}

}  // namespace saddle::primal::svr
