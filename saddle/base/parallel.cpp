#include "saddle/base/parallel.hpp"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <string>

#include "saddle/base/denormals.hpp"
#include "saddle/base/error.hpp"

namespace saddle {

namespace {

std::atomic<int> chosen_threads{0};

// Keeps the exception of the lowest chunk, so that the error reported does not depend on timing.
class FirstError {
 public:
  bool below(Index chunk) const { return lowest_.load(std::memory_order_relaxed) < chunk; }
  void record(Index chunk) {
    const std::lock_guard lock(mutex_);
    if (chunk < lowest_.load(std::memory_order_relaxed)) {
      lowest_.store(chunk, std::memory_order_relaxed);
      error_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::atomic<Index> lowest_{INT64_MAX};
  std::mutex mutex_;
  std::exception_ptr error_;
};

// The mode of the caller for as long as its work lasts: the same bits on any thread.
class Mode {
 public:
  explicit Mode(unsigned mode) { detail::set_float_mode(mode); }
  ~Mode() { detail::set_float_mode(before_); }
  Mode(const Mode&) = delete;
  Mode& operator=(const Mode&) = delete;

 private:
  unsigned before_ = detail::float_mode();
};

}  // namespace

void set_threads(int count) {
  if (count < 0) {
    throw InvalidArgument("set_threads(" + std::to_string(count) +
                          "): the number of threads must be positive, or 0 for all");
  }
  chosen_threads = count;
}

int threads() {
  const int chosen = chosen_threads;
  return chosen > 0 ? chosen : omp_get_max_threads();
}

void detail::run_loop(Index n, Index grain, LoopBody body, const LoopOptions& options) {
  if (n <= 0) return;
  grain = std::clamp<Index>(grain, 1, n);
  const Index chunks = (n - 1) / grain + 1;
  const auto run = [=](Index chunk) {
    const Index begin = chunk * grain;
    body.call(body.object, begin, begin + std::min(grain, n - begin));
  };

  const Index wanted = options.threads > 0 ? options.threads : threads();
  const int team = static_cast<int>(std::min(wanted, chunks));
  if (team == 1 || omp_in_parallel()) {
    for (Index chunk = 0; chunk < chunks; ++chunk) run(chunk);
    return;
  }

  FirstError error;
  const unsigned mode = detail::float_mode();
  const auto guarded = [&](Index chunk) {
    if (error.below(chunk)) return;
    const Mode same(mode);
    try {
      run(chunk);
    } catch (...) {
      error.record(chunk);
    }
  };
  if (options.schedule == Schedule::dynamic) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(team)
    for (Index chunk = 0; chunk < chunks; ++chunk) guarded(chunk);
  } else {
#pragma omp parallel for schedule(static) num_threads(team)
    for (Index chunk = 0; chunk < chunks; ++chunk) guarded(chunk);
  }
  error.rethrow();
}

}  // namespace saddle
