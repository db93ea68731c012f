// Which variables are adjacent: rounds of tests with sets of growing size out of the neighbours.
#pragma once

#include <array>
#include <map>

#include "saddle/analysis/causal_discovery/learn.hpp"

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

void check(const Options& options);
std::vector<std::pair<Index, Index>> adjacent_pairs(const Graph& graph);

// Tries for every adjacent pair the sets of `size` neighbours of one, then of the other. Whether there was any set.
bool search_neighbours(const IndependenceTest& test, const Options& options, Index size, Skeleton& skeleton);

// The rounds of PC, from the complete graph with `mark` at all ends.
Skeleton learn_skeleton(const IndependenceTest& test, const Options& options, Mark mark);

}  // namespace saddle::analysis::causal_discovery
