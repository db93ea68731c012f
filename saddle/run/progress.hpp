// How far long work has come: a line that is rewritten on a terminal, nothing elsewhere.
#pragma once

#include <chrono>
#include <string>

#include "saddle/base/view.hpp"

namespace saddle::run {

// "1:02:03", "4:05", "7 s"
std::string duration_text(double seconds);

class Progress {
 public:
  // Counts up to `total` of `unit`; some may have been done before, and say nothing about the rate.
  Progress(Index total, std::string unit, Index done = 0, bool wanted = true);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `note` is shown behind rate and time left; at most ten times a second.
  void at(Index done, const std::string& note = {});
  // Takes the line away, so that something else can be printed.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  Index total_, first_;
  std::string unit_;
  bool shown_, drawn_ = false;
  Clock::time_point start_ = Clock::now(), last_{};
};

}  // namespace saddle::run
