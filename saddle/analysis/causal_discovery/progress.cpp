#include <fmt/format.h>

#include "saddle/analysis/causal_discovery/progress_internal.hpp"
#include "saddle/base/log.hpp"

namespace saddle::analysis::causal_discovery {

Progress::Progress(std::string algorithm, const Options& options, double seconds)
    : algorithm_(std::move(algorithm)),
      hint_(options.stable ? "a smaller max_size or fewer nodes end sooner"
                           : "a smaller max_size, fewer nodes or stable=true end sooner"),
      interval_(seconds),
      next_(seconds) {}

void Progress::begin(std::string stage, std::size_t pairs) {
  stage_ = std::move(stage);
  pairs_ = pairs;
  done_ = 0;
}

void Progress::count(Index pairs) {
  const Index done = done_ += pairs;
  const double now = elapsed();
  double due = next_;
  if (now < due || !next_.compare_exchange_strong(due, now + interval_)) return;  // another thread says it
  log(LogLevel::info,
      fmt::format("{}: {}, {} of {} pairs, {:.0f} s so far; {}", algorithm_, stage_, done, pairs_, now, hint_));
}

}  // namespace saddle::analysis::causal_discovery
