// Which variables are adjacent: rounds of tests with sets of growing size out of the neighbours.
#pragma once

#include <array>
#include <map>

#include "saddle/analysis/causal_discovery/learn.hpp"
#include "saddle/analysis/causal_discovery/progress_internal.hpp"

namespace saddle::analysis::causal_discovery {

struct Skeleton {
  explicit Skeleton(Index n, Mark mark) : graph(Graph::complete(n, mark)), separating(n) {}

  Graph graph;
  SeparatingSets separating;
  std::vector<Index> tests;
  // For each pair that is adjacent still, and each size: the sets tested were the subsets of these two.
  std::map<std::pair<Index, Index>, std::vector<std::array<Nodes, 2>>> pools;

  void remove(Index a, Index b, Nodes nodes);
  void count(Index size, Index tested);
};

// The options as far as the test carries them: Fisher's z says nothing given more variables than n - 4. Throws
// InvalidArgument.
Options checked(const IndependenceTest& test, const Options& options);
std::vector<std::pair<Index, Index>> adjacent_pairs(const Graph& graph);

// Tries for every adjacent pair the sets of `size` neighbours of one, then of the other. Whether there was any set.
bool search_neighbours(const IndependenceTest& test, const Options& options, Index size, Skeleton& skeleton,
                       Progress& progress);

// The rounds of PC, from the complete graph with `mark` at all ends.
Skeleton learn_skeleton(const IndependenceTest& test, const Options& options, Mark mark, Progress& progress);

}  // namespace saddle::analysis::causal_discovery
