#include "saddle/mechanisms/spiking/shiftmax.hpp"

#include <algorithm>
#include <numbers>

namespace saddle::mechanisms::spiking {

double power_of_two(double x) {
  if (!(x > -1100)) return 0.0;
  const double whole = std::floor(x);
  return std::ldexp(std::exp2(x - whole), static_cast<int>(whole));
}

Shiftmax shiftmax(const tape::Value& score) {
  const Index n = score.size(-1), rows = static_cast<Index>(score.data().size()) / n;
  std::vector<double> gammas(static_cast<std::size_t>(rows), 0.0);
  for (Index row = 0; row < rows; ++row) {
    const double* const x = score.data().data() + row * n;
    const double most = *std::max_element(x, x + n);
    if (std::isinf(most)) continue;
    double sum = 0;
    for (Index j = 0; j < n; ++j) sum += power_of_two(x[j] - most);
    gammas[row] = most + ceil_log2(sum);
  }
  Shape shape(score.shape().begin(), score.shape().end() - 1);
  Shiftmax result;
  result.gamma = tape::Value(shape, std::move(gammas));
  shape.push_back(1);
  result.weight = tape::map(score - tape::reshape(result.gamma, shape), power_of_two,
                            [](double x) { return std::numbers::ln2 * power_of_two(x); });
  result.row_sum = tape::sum(result.weight, -1);
  return result;
}

}  // namespace saddle::mechanisms::spiking
