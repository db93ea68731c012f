#include "statistics.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace saddle::bench {

Timing summarise(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const std::size_t n = seconds.size();
  const double median = (seconds[(n - 1) / 2] + seconds[n / 2]) / 2;
  return {seconds.front(), median, static_cast<int>(n)};
}

bool is_confirmed(const std::vector<double>& seconds) {
  if (seconds.empty()) return false;
  const double bound = 1.03 * *std::min_element(seconds.begin(), seconds.end());
  return std::count_if(seconds.begin(), seconds.end(), [&](double s) { return s <= bound; }) >= 3;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double best_time(double seconds, const std::function<void()>& run) {
  double best = INFINITY;
  const double end = now() + seconds;
  do {
    const double start = now();
    run();
    best = std::min(best, now() - start);
  } while (now() < end);
  return best;
}

}  // namespace saddle::bench
