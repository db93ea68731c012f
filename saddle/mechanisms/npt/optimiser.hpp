// The optimiser of non-parametric transformers: LAMB without bias correction inside Lookahead, and its schedules.
#pragma once

#include <vector>

#include "saddle/base/export.hpp"
#include "saddle/base/view.hpp"

namespace saddle::mechanisms::npt {

struct LambOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-6, weight_decay = 0;
  Index lookahead_every = 6;
  double lookahead_share = 0.5;
  static constexpr double largest_norm = 10;
};

// One parameter tensor. The first synchronisation only takes the slow copy.
class SADDLE_API Lamb {
 public:
  explicit Lamb(const LambOptions& options) : options_(options) {}
  void step(std::vector<double>& weights, const std::vector<double>& gradient, double lr);

 private:
  LambOptions options_;
  std::vector<double> mean_, square_, slow_;
  Index steps_ = 0;
};

// lr for a share of all steps, then down a half cosine.
SADDLE_API double flat_then_anneal(double lr, double flat_share, Index step, Index total);
// The share of the features in the loss at a step: down a half cosine from `first`, one step late, as published.
SADDLE_API double feature_share(double first, Index step, Index total);

}  // namespace saddle::mechanisms::npt
