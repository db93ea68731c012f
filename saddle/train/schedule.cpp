#include "saddle/train/schedule.hpp"

#include <cmath>
#include <numbers>

#include "saddle/mechanisms/npt/optimiser.hpp"

namespace saddle::train {

namespace {

double between(double from, double to, double share) { return from + (to - from) * share; }

}  // namespace

Rate rate_at(const run::TrainSettings& settings, Index t, Index total) {
  const double lr = settings.lr, last = static_cast<double>(total - 1), at = static_cast<double>(t);
  const double warmup =
      settings.warmup < 1 ? std::floor(settings.warmup * static_cast<double>(total)) : settings.warmup;
  if (settings.schedule == "one_cycle") {
    const double top = std::max(warmup - 1, 0.0);
    if (at <= top) {
      const double share = top > 0 ? at / top : 1;
      return {between(lr / 25, lr, share), between(0.95, 0.85, share)};
    }
    const double share = last > top ? (at - top) / (last - top) : 1;
    return {between(lr, lr / 25 / 1e4, share), between(0.85, 0.95, share)};
  }
  if (settings.schedule == "cosine") {
    if (at < warmup) return {between(lr * 1e-3, lr, at / warmup), settings.beta1};
    const double share = last > warmup ? std::min(1.0, (at - warmup) / (last - warmup)) : 0;
    return {settings.min_lr + (lr - settings.min_lr) * 0.5 * (1 + std::cos(std::numbers::pi * share)), settings.beta1};
  }
  const double rise = at < warmup ? (at + 1) / warmup : 1;
  if (settings.schedule == "flat_anneal")
    return {rise * mechanisms::npt::flat_then_anneal(lr, settings.flat, t, total), settings.beta1};
  return {rise * lr, settings.beta1};
}

}  // namespace saddle::train
