#include "saddle/analysis/causal_discovery/independence.hpp"

#include <algorithm>

#include "saddle/base/error.hpp"

namespace saddle::analysis::causal_discovery {

Index size(const IndependenceTest& test) {
  return std::visit([](const auto& each) { return each.size(); }, test);
}

double p_value(const IndependenceTest& test, Index x, Index y, std::span<const Index> z) {
  Nodes all{x, y};
  all.insert(all.end(), z.begin(), z.end());
  std::sort(all.begin(), all.end());
  if (all.front() < 0 || all.back() >= size(test))
    throw InvalidArgument("an independence test names variable " +
                          std::to_string(all.front() < 0 ? all.front() : all.back()) + ", there are 0 to " +
                          std::to_string(size(test) - 1));
  if (const auto twice = std::adjacent_find(all.begin(), all.end()); twice != all.end())
    throw InvalidArgument("an independence test names variable " + std::to_string(*twice) + " twice");
  return std::visit([&](const auto& each) { return each.p_value(x, y, z); }, test);
}

}  // namespace saddle::analysis::causal_discovery
