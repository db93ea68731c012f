#include <fmt/format.h>

#include <algorithm>

#include "saddle/analysis/causal_discovery/skeleton_internal.hpp"
#include "saddle/analysis/causal_discovery/subset_search_internal.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

// Pairs that are searched at the same time where deletions count at once: few, since a search that began before a
// deletion tests more sets than one after it.
constexpr Index block = 64;

// The neighbours of each but the other.
std::array<Nodes, 2> pools_of(Index a, Index b, const Nodes& around_a, const Nodes& around_b) {
  std::array<Nodes, 2> pools;
  std::remove_copy(around_a.begin(), around_a.end(), std::back_inserter(pools[0]), b);
  std::remove_copy(around_b.begin(), around_b.end(), std::back_inserter(pools[1]), a);
  return pools;
}

Outcome search_pair(const IndependenceTest& test, double alpha, Index size, Index a, Index b,
                    const std::array<Nodes, 2>& pools, Progress& progress) {
  Outcome outcome = search(test, alpha, {a, b, pools[0], size, {}, &progress});
  if (outcome.separating || size == 0) return outcome;
  Outcome second = search(test, alpha, {a, b, pools[1], size, {&pools[0]}, &progress});
  second.tests += outcome.tests;
  return second;
}

// Subsets of this size; too many to be tested anyway are not told apart.
Index subsets(std::size_t of, Index size) {
  double count = 1;
  for (Index i = 0; i < size; ++i)
    count *= (static_cast<double>(of) - static_cast<double>(i)) / static_cast<double>(i + 1);
  return static_cast<Index>(std::clamp(std::round(count), 0.0, 1e18));
}

Index distinct_subsets(const std::array<Nodes, 2>& pools, Index size) {
  Nodes both;
  std::set_intersection(pools[0].begin(), pools[0].end(), pools[1].begin(), pools[1].end(), std::back_inserter(both));
  return subsets(pools[0].size(), size) + subsets(pools[1].size(), size) - subsets(both.size(), size);
}

}  // namespace

void Skeleton::remove(Index a, Index b, Nodes nodes) {
  graph.remove(a, b);
  separating.set(a, b, std::move(nodes));
  pools.erase({a, b});
}

void Skeleton::count(Index size, Index tested) {
  if (static_cast<Index>(tests.size()) <= size) tests.resize(static_cast<std::size_t>(size) + 1);
  tests[static_cast<std::size_t>(size)] += tested;
}

Options checked(const IndependenceTest& test, const Options& options) {
  if (!(options.alpha > 0 && options.alpha < 1))
    throw InvalidArgument(fmt::format("alpha is {}, expected a number between 0 and 1", options.alpha),
                          "0.01 and 0.05 are usual");
  if (options.max_size < -1)
    throw InvalidArgument(
        fmt::format("the largest conditioning set has {} variables, expected 0 or more, or -1 for "
                    "no limit",
                    options.max_size));
  Options limited = options;
  if (const auto* z = std::get_if<FisherZ>(&test); z != nullptr && z->large_sets() == LargeSets::left_out) {
    const auto largest = static_cast<Index>(std::min(z->samples() - fewest_samples, 1e9));
    limited.max_size = options.max_size < 0 ? largest : std::min(options.max_size, largest);
  }
  return limited;
}

std::vector<std::pair<Index, Index>> adjacent_pairs(const Graph& graph) {
  std::vector<std::pair<Index, Index>> pairs;
  for (Index a = 0; a < graph.size(); ++a)
    for (Index b = a + 1; b < graph.size(); ++b)
      if (graph.adjacent(a, b)) pairs.emplace_back(a, b);
  return pairs;
}

bool search_neighbours(const IndependenceTest& test, const Options& options, Index size, Skeleton& skeleton,
                       Progress& progress) {
  const auto pairs = adjacent_pairs(skeleton.graph);
  const auto n = static_cast<std::size_t>(skeleton.graph.size()), total = pairs.size();
  const std::size_t step = options.stable || size == 0 ? total : static_cast<std::size_t>(block);
  progress.begin("sets of " + std::to_string(size), total);
  bool any = false;
  for (std::size_t start = 0; start < total; start += step) {
    const std::size_t count = std::min(step, total - start);
    std::vector<Nodes> around;
    for (Index v = 0; v < skeleton.graph.size(); ++v) around.push_back(skeleton.graph.neighbours(v));
    std::vector<std::array<Nodes, 2>> pools(count);
    std::vector<Outcome> outcomes(count);
    double work = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const auto [a, b] = pairs[start + i];
      pools[i] = pools_of(a, b, around[static_cast<std::size_t>(a)], around[static_cast<std::size_t>(b)]);
      work += static_cast<double>(subsets(pools[i][0].size(), size) + subsets(pools[i][1].size(), size));
    }
    parallel_for(static_cast<Index>(count), 8,
                 [&](Index i) {
                   const auto at = static_cast<std::size_t>(i);
                   const auto [a, b] = pairs[start + at];
                   outcomes[at] = search_pair(test, options.alpha, size, a, b, pools[at], progress);
                   progress.count(1);
                 },
                 {Schedule::dynamic, worth_threads(test, work) ? 0 : 1});

    // In order. Where an earlier pair of the block lost its edge, neighbours are fewer than those that were searched:
    // if no set separated then none of fewer does, but the first that separates may be another.
    std::vector<char> changed(n, 0);
    for (std::size_t i = 0; i < count; ++i) {
      const auto [a, b] = pairs[start + i];
      const bool fewer = !options.stable && size > 0 &&
                         (changed[static_cast<std::size_t>(a)] != 0 || changed[static_cast<std::size_t>(b)] != 0);
      Outcome& outcome = outcomes[i];
      if (fewer) {
        pools[i] = pools_of(a, b, skeleton.graph.neighbours(a), skeleton.graph.neighbours(b));
        if (outcome.separating)
          outcome = search_pair(test, options.alpha, size, a, b, pools[i], progress);
        else
          outcome.tests = distinct_subsets(pools[i], size);
      }
      any = any || outcome.tests > 0;
      skeleton.count(size, outcome.tests);
      if (outcome.separating) {
        skeleton.remove(a, b, std::move(*outcome.separating));
        changed[static_cast<std::size_t>(a)] = changed[static_cast<std::size_t>(b)] = 1;
      } else {
        skeleton.pools[{a, b}].push_back(std::move(pools[i]));
      }
    }
  }
  return any;
}

Skeleton learn_skeleton(const IndependenceTest& test, const Options& options, Mark mark, Progress& progress) {
  Skeleton skeleton(size(test), mark);
  const auto largest_degree = [&] {
    Index largest = 0;
    for (Index a = 0; a < skeleton.graph.size(); ++a) largest = std::max(largest, skeleton.graph.degree(a));
    return largest;
  };
  for (Index k = 0; largest_degree() > k && (options.max_size < 0 || k <= options.max_size); ++k)
    search_neighbours(test, options, k, skeleton, progress);
  return skeleton;
}

}  // namespace saddle::analysis::causal_discovery
