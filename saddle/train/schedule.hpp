// Learning rate and beta1 of every update.
#pragma once

#include "saddle/run/settings.hpp"

namespace saddle::train {

struct Rate {
  double lr, beta1;
};

// Of update t = 0 .. total - 1. one_cycle is torch's OneCycleLR with linear annealing and its defaults: from lr / 25 up
// to lr at the last update of the warm-up, down to lr / 250000; beta1 from 0.95 to 0.85 and back. cosine warms up
// linearly from lr / 1000. flat_anneal is that of non-parametric transformers, with a linear warm-up like constant.
Rate rate_at(const run::TrainSettings& settings, Index t, Index total);

}  // namespace saddle::train
