#include <algorithm>
#include <compare>
#include <optional>

#include "saddle/analysis/causal_discovery/ancestral_internal.hpp"
#include "saddle/analysis/causal_discovery/pds_tree.hpp"
#include "saddle/analysis/causal_discovery/progress_internal.hpp"
#include "saddle/analysis/causal_discovery/skeleton_internal.hpp"
#include "saddle/analysis/causal_discovery/subset_search_internal.hpp"
#include "saddle/base/parallel.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

// Most pairs that are searched at the same time; after a deletion the rest of them is searched again.
constexpr std::size_t block = 32;

// What a round knows of a node as one end of a pair, for the graph as it is.
struct End {
  std::optional<PdsTree> tree;
  std::optional<std::vector<char>> ancestors;  // possible ones

  void complete(const Graph& graph, Index node, Index depth) {
    if (!tree) tree = pds_tree(graph, node, depth);
    if (!ancestors) ancestors = graph.possible_ancestors(node);
  }

  // Drops what depends on the edge between a and b, which is about to go: a tree asks for the edges of the nodes above
  // its last level.
  void forget(const Graph& graph, Index node, Index a, Index b, Index depth) {
    const auto asked = [&](Index v) {
      const Index distance = tree->distance[static_cast<std::size_t>(v)];
      return distance >= 0 && distance < depth;
    };
    const auto leads_here = [&](Index from, Index to) {
      return graph.possible_parent(from, to) && (to == node || (*ancestors)[static_cast<std::size_t>(to)] != 0);
    };
    if (tree && (asked(a) || asked(b))) tree.reset();
    if (ancestors && (leads_here(a, b) || leads_here(b, a))) ancestors.reset();
  }
};

// Sets of one size, one after the other, and the order in which they are tried.
struct Candidates {
  std::vector<Index> members;
  std::vector<std::pair<Index, std::size_t>> order;  // with the sum of their distances: where a set begins
};

// The sets that may separate a from b by the conditions of ICD, nearest first, each once.
Candidates candidates(const End& a, const End& b, Index size) {
  std::vector<char> allowed = *a.ancestors;
  for (std::size_t v = 0; v < allowed.size(); ++v) allowed[v] = allowed[v] != 0 || (*b.ancestors)[v] != 0 ? 1 : 0;
  for (const End* end : {&a, &b}) allowed[static_cast<std::size_t>(end->tree->vertices[0].node)] = 0;

  const auto width = static_cast<std::size_t>(size);
  Candidates found;
  found.members = a.tree->closed_rows(size, allowed);
  const std::size_t first = found.members.size();  // those of b follow
  const std::vector<Index> of_b = b.tree->closed_rows(size, allowed);
  found.members.insert(found.members.end(), of_b.begin(), of_b.end());
  const auto sum = [&](const End& end, std::size_t at) {
    Index total = 0;
    for (std::size_t i = at; i < at + width; ++i)
      total += end.tree->distance[static_cast<std::size_t>(found.members[i])];
    return total;
  };
  // Both lists are in order, so sets that are in both are met side by side; the nearer one stays, of a where equal.
  const auto set = [&](std::size_t at) { return found.members.begin() + static_cast<std::ptrdiff_t>(at); };
  std::vector<std::pair<Index, std::size_t>> second;
  std::size_t i = 0, j = first;
  while (i < first || j < found.members.size()) {
    const auto order = i == first ? std::strong_ordering::greater
                       : j == found.members.size()
                           ? std::strong_ordering::less
                           : std::lexicographical_compare_three_way(set(i), set(i + width), set(j), set(j + width));
    const bool in_a = std::is_lteq(order), in_b = std::is_gteq(order);
    const Index near_a = in_a ? sum(a, i) : 0, near_b = in_b ? sum(b, j) : 0;
    if (in_a && (!in_b || near_a <= near_b))
      found.order.emplace_back(near_a, i);
    else
      second.emplace_back(near_b, j);
    if (in_a) i += width;
    if (in_b) j += width;
  }
  found.order.insert(found.order.end(), second.begin(), second.end());
  std::stable_sort(found.order.begin(), found.order.end(),
                   [](const auto& s, const auto& t) { return s.first < t.first; });
  return found;
}

Outcome search_pair(const IndependenceTest& test, double alpha, const End& a, const End& b, Index size,
                    Progress& progress) {
  const Index x = a.tree->vertices[0].node, y = b.tree->vertices[0].node;
  const Candidates sets = candidates(a, b, size);
  Outcome outcome;
  std::visit(
      [&](const auto& each) {
        for (const auto& [sum, start] : sets.order) {
          if (++outcome.tests % sign_of_life == 0) progress.count();
          const std::span<const Index> nodes(sets.members.data() + start, static_cast<std::size_t>(size));
          if (!(each.p_value(x, y, nodes) > alpha)) continue;
          outcome.separating.emplace(nodes.begin(), nodes.end());
          break;
        }
      },
      test);
  return outcome;
}

// A round with sets of two or more. Whether there was any set.
bool search_ancestors(const IndependenceTest& test, const Options& options, Index size, Skeleton& skeleton,
                      Progress& progress) {
  const Graph& graph = skeleton.graph;
  const auto pairs = adjacent_pairs(graph);
  const auto total = pairs.size(), workers = static_cast<std::size_t>(threads());
  std::vector<End> ends(static_cast<std::size_t>(graph.size()));
  const auto end = [&](Index node) -> End& { return ends[static_cast<std::size_t>(node)]; };
  progress.begin("sets of " + std::to_string(size), total);
  bool any = false;
  std::size_t step = options.stable ? total : 1;
  for (std::size_t start = 0; start < total;) {
    const std::size_t count = std::min(step, total - start);
    Nodes wanted;
    for (std::size_t i = start; i < start + count; ++i)
      for (const Index node : {pairs[i].first, pairs[i].second}) wanted.push_back(node);
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    parallel_for(static_cast<Index>(wanted.size()), 1,
                 [&](Index i) {
                   const Index node = wanted[static_cast<std::size_t>(i)];
                   end(node).complete(graph, node, size);
                 },
                 {Schedule::dynamic, count > 1 ? 0 : 1});
    std::vector<Outcome> outcomes(count);
    parallel_for(static_cast<Index>(count), 1,
                 [&](Index i) {
                   const auto [a, b] = pairs[start + static_cast<std::size_t>(i)];
                   outcomes[static_cast<std::size_t>(i)] =
                       search_pair(test, options.alpha, end(a), end(b), size, progress);
                   if (options.stable) progress.count(1);
                 },
                 {Schedule::dynamic});
    bool removed = false;
    Index tests = 0;
    for (Outcome& outcome : outcomes) {
      const auto [a, b] = pairs[start++];
      any = any || outcome.tests > 0;
      tests += outcome.tests;
      skeleton.count(size, outcome.tests);
      if (!options.stable) progress.count(1);
      if (!outcome.separating) continue;
      if (!options.stable)
        for (Index node = 0; node < graph.size(); ++node) end(node).forget(graph, node, a, b, size);
      skeleton.remove(a, b, std::move(*outcome.separating));
      removed = !options.stable;
      if (removed) break;
    }
    // Searching ahead pays where pairs take long, by far, and edges stay.
    const double each = static_cast<double>(tests) / static_cast<double>(count);
    const bool together = workers > 1 && worth_threads(test, each * static_cast<double>(workers) / 10);
    step = together ? std::min(block, removed ? workers : std::max(2 * step, workers)) : 1;
  }
  return any;
}

}  // namespace

Discovery icd(const IndependenceTest& test, const Options& given) {
  const Options options = checked(test, given);
  Progress progress("icd", options);
  Skeleton skeleton(size(test), Mark::circle);
  std::vector<Graph> rounds;
  bool any = true;
  for (Index r = 0; any && (options.max_size < 0 || r <= options.max_size); ++r) {
    any = r < 2 ? search_neighbours(test, options, r, skeleton, progress)
                : search_ancestors(test, options, r, skeleton, progress);
    if (any || r < 2) orient_arrows(skeleton.graph, skeleton.separating);
    if (!any || r == 1) orient_tails(skeleton.graph, skeleton.separating, options);
    any = any || r == 0;
    rounds.push_back(skeleton.graph);
  }
  if (any) orient_tails(skeleton.graph, skeleton.separating, options);  // the limit came before the last round
  return {std::move(skeleton.graph), std::move(skeleton.separating), std::move(skeleton.tests), std::move(rounds)};
}

}  // namespace saddle::analysis::causal_discovery
