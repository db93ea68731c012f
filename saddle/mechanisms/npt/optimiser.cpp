#include "saddle/mechanisms/npt/optimiser.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace saddle::mechanisms::npt {

namespace {

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

}  // namespace

void Lamb::step(std::vector<double>& weights, const std::vector<double>& gradient, double lr) {
  mean_.resize(weights.size(), 0.0);
  square_.resize(weights.size(), 0.0);
  std::vector<double> update(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    mean_[i] = options_.beta1 * mean_[i] + (1 - options_.beta1) * gradient[i];
    square_[i] = options_.beta2 * square_[i] + (1 - options_.beta2) * gradient[i] * gradient[i];
    update[i] = mean_[i] / (std::sqrt(square_[i]) + options_.eps) + options_.weight_decay * weights[i];
  }
  const double own = std::min(norm(weights), LambOptions::largest_norm), length = norm(update);
  const double ratio = own == 0 || length == 0 ? 1 : own / length;
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= lr * ratio * update[i];
  if (++steps_ % options_.lookahead_every != 0) return;
  if (slow_.empty()) slow_ = weights;
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = slow_[i] += options_.lookahead_share * (weights[i] - slow_[i]);
}

double flat_then_anneal(double lr, double flat_share, Index step, Index total) {
  const double all = static_cast<double>(total);
  const double annealed = std::trunc(all * (1 - flat_share)), last_flat = std::floor(flat_share * all - 1);
  const double at = static_cast<double>(step);
  // Of so few steps that none is left to anneal, all are flat.
  return at <= last_flat || annealed < 1 ? lr : lr * (1 + std::cos(std::numbers::pi * (at - last_flat) / annealed)) / 2;
}

double feature_share(double first, Index step, Index total) {
  if (step == 0) return first;
  const double done = static_cast<double>(step - 1) / static_cast<double>(total);
  return done > 1 ? 0 : first * (std::cos(std::numbers::pi * done) + 1) / 2;
}

}  // namespace saddle::mechanisms::npt
