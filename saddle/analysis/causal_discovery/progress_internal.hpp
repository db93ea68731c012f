// How far a search is, in the log, for searches that take long.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "saddle/analysis/causal_discovery/learn.hpp"

namespace saddle::analysis::causal_discovery {

class SADDLE_API Progress {
 public:
  // A line every `seconds`, the first after as many; the options say what would end sooner.
  explicit Progress(std::string algorithm, const Options& options, double seconds = 5);

  // What is done next, for so many pairs. Not while others count.
  void begin(std::string stage, std::size_t pairs);
  // So many more pairs are done; 0 is a sign of life. From any thread.
  void count(Index pairs = 0);

 private:
  using Clock = std::chrono::steady_clock;
  // Seconds since the search began.
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  std::string algorithm_, hint_, stage_;
  double interval_;
  Clock::time_point start_ = Clock::now();
  std::size_t pairs_ = 0;
  std::atomic<Index> done_ = 0;
  std::atomic<double> next_;  // when to say something
};

}  // namespace saddle::analysis::causal_discovery
