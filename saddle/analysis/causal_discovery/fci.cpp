#include <algorithm>

#include "saddle/analysis/causal_discovery/ancestral_internal.hpp"
#include "saddle/analysis/causal_discovery/pds_tree.hpp"
#include "saddle/analysis/causal_discovery/skeleton_internal.hpp"
#include "saddle/analysis/causal_discovery/subset_search_internal.hpp"
#include "saddle/base/parallel.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

struct PairOutcome {
  std::optional<Nodes> separating;
  std::vector<Index> tests;  // by size
};

// Sets of any size out of the possible-d-separation set of a, then of b, but for those that the skeleton has tested.
PairOutcome search_pair(const IndependenceTest& test, const Options& options, Index a, Index b,
                        const std::array<const Nodes*, 2>& members, const std::vector<std::array<Nodes, 2>>& pools,
                        Progress& progress) {
  PairOutcome outcome;
  std::array<Nodes, 2> sets{*members[0], *members[1]};
  std::erase(sets[0], b);
  std::erase(sets[1], a);
  for (std::size_t side = 0; side < 2; ++side) {
    auto largest = static_cast<Index>(sets[side].size());
    if (options.max_size >= 0) largest = std::min(largest, options.max_size);
    for (Index k = 0; k <= largest; ++k) {
      Search wanted{a, b, sets[side], k, {}, &progress};
      if (k < static_cast<Index>(pools.size()))
        for (const Nodes& tested : pools[static_cast<std::size_t>(k)]) wanted.tested.push_back(&tested);
      if (side == 1) wanted.tested.push_back(&sets[0]);
      Outcome found = search(test, options.alpha, wanted);
      if (static_cast<Index>(outcome.tests.size()) <= k) outcome.tests.resize(static_cast<std::size_t>(k) + 1);
      outcome.tests[static_cast<std::size_t>(k)] += found.tests;
      if (!found.separating) continue;
      outcome.separating = std::move(found.separating);
      return outcome;
    }
  }
  return outcome;
}

}  // namespace

Discovery fci(const IndependenceTest& test, const Options& given) {
  const Options options = checked(test, given);
  Progress progress("fci", options);
  Skeleton skeleton = learn_skeleton(test, options, Mark::circle, progress);
  orient_colliders(skeleton.graph, skeleton.separating);

  // All sets are fixed before any edge goes, so one pair does not matter to another: any order gives the same.
  std::vector<Nodes> members;
  for (Index root = 0; root < skeleton.graph.size(); ++root)
    members.push_back(pds_tree(skeleton.graph, root).members());
  const auto pairs = adjacent_pairs(skeleton.graph);
  std::vector<PairOutcome> outcomes(pairs.size());
  progress.begin("sets of any size", pairs.size());
  parallel_for(static_cast<Index>(pairs.size()), 1,
               [&](Index i) {
                 const auto [a, b] = pairs[static_cast<std::size_t>(i)];
                 outcomes[static_cast<std::size_t>(i)] =
                     search_pair(test, options, a, b,
                                 {&members[static_cast<std::size_t>(a)], &members[static_cast<std::size_t>(b)]},
                                 skeleton.pools.at({a, b}), progress);
                 progress.count(1);
               },
               {Schedule::dynamic});
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (std::size_t k = 0; k < outcomes[i].tests.size(); ++k)
      skeleton.count(static_cast<Index>(k), outcomes[i].tests[k]);
    if (outcomes[i].separating) skeleton.remove(pairs[i].first, pairs[i].second, std::move(*outcomes[i].separating));
  }

  orient_arrows(skeleton.graph, skeleton.separating);
  orient_tails(skeleton.graph, skeleton.separating, options);
  return {std::move(skeleton.graph), std::move(skeleton.separating), std::move(skeleton.tests), {}};
}

}  // namespace saddle::analysis::causal_discovery
