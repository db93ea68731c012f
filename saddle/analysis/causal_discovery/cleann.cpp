#include "saddle/analysis/causal_discovery/cleann.hpp"

#include <algorithm>
#include <numeric>

#include "saddle/analysis/causal_discovery/subset_search_internal.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

void check_target(Index n, Index target) {
  if (target < 0 || target >= n)
    throw InvalidArgument("the target is node " + std::to_string(target) + ", the graph has nodes 0 to " +
                          std::to_string(n - 1));
}

Index limit(Index wanted, std::size_t members) {
  const auto all = static_cast<Index>(members);
  return wanted < 0 ? all : std::min(wanted, all);
}

}  // namespace

Explanations explain(const Graph& graph, Index target, const IsExplanation& judge, const ExplainOptions& options) {
  check_target(graph.size(), target);
  Explanations result;
  result.tree = pds_tree(graph, target, options.max_range);
  result.members = result.tree.members();
  const auto measured = [&](Nodes tokens) {
    Index sum = 0;
    for (const Index token : tokens) sum += result.tree.distance[static_cast<std::size_t>(token)];
    return TokenSet{std::move(tokens), sum};
  };
  const Index largest = limit(options.max_set_size, result.members.size());
  if (!judge) {
    if (static_cast<Index>(result.members.size()) <= largest) result.found.push_back(measured(result.members));
    return result;
  }
  const std::vector<char> allowed(static_cast<std::size_t>(graph.size()), 1);
  for (Index size = 1; size <= largest; ++size) {
    std::vector<TokenSet> sets;
    for (Nodes& tokens : result.tree.closed_sets(size, allowed)) sets.push_back(measured(std::move(tokens)));
    std::stable_sort(sets.begin(), sets.end(),
                     [](const TokenSet& s, const TokenSet& t) { return s.distance < t.distance; });
    if (options.prepare) {
      std::vector<Nodes> next;
      for (const TokenSet& set : sets)
        if (options.max_judged < 0 || static_cast<Index>(result.candidates.size() + next.size()) < options.max_judged)
          next.push_back(set.tokens);
      options.prepare(next);
    }
    for (TokenSet& set : sets) {
      if (options.max_judged >= 0 && static_cast<Index>(result.candidates.size()) >= options.max_judged) {
        result.complete = false;
        return result;
      }
      if (judge(set.tokens, target)) result.found.push_back(set);
      result.candidates.push_back(std::move(set));
    }
    if (options.search_minimal && !result.found.empty()) break;
  }
  return result;
}

std::vector<Nodes> explain_exhaustively(Index n, Index target, const IsExplanation& judge,
                                        const ExplainOptions& options) {
  check_target(n, target);
  if (!judge) throw InvalidArgument("an exhaustive search for explanations needs a function that judges them");
  std::vector<Nodes> found;
  const Index largest = limit(options.max_set_size, static_cast<std::size_t>(n - 1));
  for (Index size = 1; size <= largest; ++size) {
    Nodes places(static_cast<std::size_t>(size));
    std::iota(places.begin(), places.end(), Index{0});
    do {
      Nodes tokens = places;
      for (Index& token : tokens) token += token >= target ? 1 : 0;
      if (judge(tokens, target)) found.push_back(std::move(tokens));
    } while (next_subset(places, n - 1));
    if (options.search_minimal && !found.empty()) break;
  }
  return found;
}

}  // namespace saddle::analysis::causal_discovery
