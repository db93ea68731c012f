// Causal discovery by conditional-independence tests: PC, FCI and ICD.
#pragma once

#include <functional>

#include "saddle/analysis/causal_discovery/graph.hpp"
#include "saddle/analysis/causal_discovery/independence.hpp"

namespace saddle::analysis::causal_discovery {

struct Options {
  double alpha = 0.01;  // independent where the p-value is larger
  // Edges found in a round go together at its end, so that the result does not depend on the order of the variables.
  bool stable = false;
  bool selection_bias = true;     // FCI and ICD: rules 5 to 7
  bool tail_completeness = true;  // FCI and ICD: rules 8 to 10
  bool strict_r10 = false;        // rule 10 with potentially directed paths, as Zhang states it
  Index max_size = -1;            // of conditioning sets; -1: no limit
};

struct Discovery {
  Graph graph;
  SeparatingSets separating;
  std::vector<Index> tests;   // how many with 0, 1, 2, ... conditioning variables; the same set counts once per pair
  std::vector<Graph> rounds;  // ICD: the graph after each round, every one a valid answer
};

// Pairs and sets are tried in ascending order, the first that separates wins. Tests run in parallel; graphs, sets and
// counts do not depend on the number of threads. All throw InvalidArgument for an alpha outside (0,1).

// Spirtes and Glymour: no hidden common causes. A completed partially directed graph, undirected edges with two tails.
SADDLE_API Discovery pc(const IndependenceTest& test, const Options& options = {});
// Spirtes, Meek, Richardson; Zhang's rules: with hidden causes and selection. A partial ancestral graph.
SADDLE_API Discovery fci(const IndependenceTest& test, const Options& options = {});
// Rohekar, Nisimov, Gurwicz, Novik: the same graph with fewer and smaller tests, refined round by round.
SADDLE_API Discovery icd(const IndependenceTest& test, const Options& options = {});

}  // namespace saddle::analysis::causal_discovery
