// Times of repeated rounds. The minimum is quoted: on a shared machine everything else is the neighbours' doing.
#pragma once

#include <functional>
#include <vector>

namespace saddle::bench {

struct Timing {
  double best = 0, median = 0;  // seconds
  int rounds = 0;
};

// Of at least one time.
Timing summarise(std::vector<double> seconds);

// Whether the minimum is no accident: three rounds lie within 3 % of it.
bool is_confirmed(const std::vector<double>& seconds);

// Seconds since some fixed moment.
double now();
// The best time of one call, over as many calls as fit into `seconds`, at least one.
double best_time(double seconds, const std::function<void()>& run);

}  // namespace saddle::bench
