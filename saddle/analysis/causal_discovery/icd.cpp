#include <algorithm>
#include <optional>
#include <set>

#include "saddle/analysis/causal_discovery/ancestral_internal.hpp"
#include "saddle/analysis/causal_discovery/pds_tree.hpp"
#include "saddle/analysis/causal_discovery/skeleton_internal.hpp"
#include "saddle/analysis/causal_discovery/subset_search_internal.hpp"
#include "saddle/base/parallel.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

// Pairs that are searched at the same time; after a deletion the rest of them is searched again.
constexpr Index block = 32;

// What a round knows of a node as one end of a pair.
struct End {
  PdsTree tree;
  std::vector<char> ancestors;  // possible ones
};

// The sets that may separate a from b by the conditions of ICD, nearest first, each once.
std::vector<Nodes> candidates(const End& a, const End& b, Index size) {
  std::vector<char> allowed = a.ancestors;
  for (std::size_t v = 0; v < allowed.size(); ++v) allowed[v] = allowed[v] != 0 || b.ancestors[v] != 0 ? 1 : 0;
  for (const End* end : {&a, &b}) allowed[static_cast<std::size_t>(end->tree.vertices[0].node)] = 0;

  std::vector<std::pair<Index, Nodes>> sets;  // with the sum of their distances
  for (const End* end : {&a, &b})
    for (Nodes& nodes : end->tree.closed_sets(size, allowed)) {
      Index sum = 0;
      for (const Index node : nodes) sum += end->tree.distance[static_cast<std::size_t>(node)];
      sets.emplace_back(sum, std::move(nodes));
    }
  std::stable_sort(sets.begin(), sets.end(), [](const auto& s, const auto& t) { return s.first < t.first; });
  std::vector<Nodes> ordered;
  std::set<Nodes> seen;
  for (auto& [sum, nodes] : sets)
    if (seen.insert(nodes).second) ordered.push_back(std::move(nodes));
  return ordered;
}

Outcome search_pair(const IndependenceTest& test, double alpha, const End& a, const End& b, Index size) {
  Outcome outcome;
  for (Nodes& nodes : candidates(a, b, size)) {
    ++outcome.tests;
    const Index x = a.tree.vertices[0].node, y = b.tree.vertices[0].node;
    const double p = std::visit([&](const auto& each) { return each.p_value(x, y, nodes); }, test);
    if (!(p > alpha)) continue;
    outcome.separating = std::move(nodes);
    break;
  }
  return outcome;
}

// A round with sets of two or more. Whether there was any set.
bool search_ancestors(const IndependenceTest& test, const Options& options, Index size, Skeleton& skeleton) {
  const Graph& graph = skeleton.graph;
  const auto pairs = adjacent_pairs(graph);
  const std::size_t total = pairs.size(), step = options.stable ? total : static_cast<std::size_t>(block);
  std::vector<std::optional<End>> ends(static_cast<std::size_t>(graph.size()));  // for the graph as it is
  bool any = false;
  for (std::size_t start = 0; start < total;) {
    const std::size_t count = std::min(step, total - start);
    std::set<Index> wanted;
    for (std::size_t i = start; i < start + count; ++i)
      for (const Index node : {pairs[i].first, pairs[i].second})
        if (!ends[static_cast<std::size_t>(node)]) wanted.insert(node);
    const Nodes missing(wanted.begin(), wanted.end());
    parallel_for(
        static_cast<Index>(missing.size()), 1,
        [&](Index i) {
          const Index node = missing[static_cast<std::size_t>(i)];
          ends[static_cast<std::size_t>(node)] = End{pds_tree(graph, node, size), graph.possible_ancestors(node)};
        },
        {Schedule::dynamic});
    std::vector<Outcome> outcomes(count);
    parallel_for(static_cast<Index>(count), 1,
                 [&](Index i) {
                   const auto [a, b] = pairs[start + static_cast<std::size_t>(i)];
                   outcomes[static_cast<std::size_t>(i)] =
                       search_pair(test, options.alpha, *ends[static_cast<std::size_t>(a)],
                                   *ends[static_cast<std::size_t>(b)], size);
                 },
                 {Schedule::dynamic});
    for (Outcome& outcome : outcomes) {
      const auto [a, b] = pairs[start++];
      any = any || outcome.tests > 0;
      skeleton.count(size, outcome.tests);
      if (!outcome.separating) continue;
      skeleton.remove(a, b, std::move(*outcome.separating));
      if (options.stable) continue;
      std::fill(ends.begin(), ends.end(), std::nullopt);  // what follows has seen an edge that is gone
      break;
    }
  }
  return any;
}

}  // namespace

Discovery icd(const IndependenceTest& test, const Options& options) {
  check(options);
  Skeleton skeleton(size(test), Mark::circle);
  std::vector<Graph> rounds;
  bool any = true;
  for (Index r = 0; any && (options.max_size < 0 || r <= options.max_size); ++r) {
    any = r < 2 ? search_neighbours(test, options, r, skeleton) : search_ancestors(test, options, r, skeleton);
    if (any || r < 2) orient_arrows(skeleton.graph, skeleton.separating);
    if (!any || r == 1) orient_tails(skeleton.graph, skeleton.separating, options);
    any = any || r == 0;
    rounds.push_back(skeleton.graph);
  }
  if (any) orient_tails(skeleton.graph, skeleton.separating, options);  // the limit came before the last round
  return {std::move(skeleton.graph), std::move(skeleton.separating), std::move(skeleton.tests), std::move(rounds)};
}

}  // namespace saddle::analysis::causal_discovery
