// Rounds of everybody who takes part, in turn, so that all of them meet the same moods of the machine.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "contender.hpp"
#include "statistics.hpp"

namespace saddle::bench {

struct Rounds {
  double seconds = 4;         // of all rounds, roughly
  int fewest = 5, most = 40;  // of them
};

// One who takes part, and where its times go.
struct Seat {
  std::unique_ptr<Contender> contender;
  std::vector<double> times;
  std::function<void(const Timing&)> done;
  std::function<void(const std::string&)> failed;
};

// Rounds go on for the seconds asked for, and longer while a minimum is a single lucky round: on a machine shared with
// others every contender must have had its quiet moments.
void interleave(std::vector<Seat>& seats, const Rounds& rounds);

}  // namespace saddle::bench
