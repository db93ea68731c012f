#include "statistics.hpp"

#include <algorithm>
#include <chrono>

namespace saddle::bench {

Timing summarise(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const std::size_t n = seconds.size();
  const double median = (seconds[(n - 1) / 2] + seconds[n / 2]) / 2;
  return {seconds.front(), median, static_cast<int>(n)};
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace saddle::bench
