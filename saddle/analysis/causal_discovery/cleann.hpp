// Small sets of tokens that explain a prediction, looked for near the target in the causal graph.
#pragma once

#include <functional>
#include <optional>

#include "saddle/analysis/causal_discovery/pds_tree.hpp"

namespace saddle::analysis::causal_discovery {

// Whether the prediction at the target changes without these tokens.
using IsExplanation = std::function<bool(const Nodes& tokens, Index target)>;

struct ExplainOptions {
  Index max_set_size = -1;     // -1: no limit
  Index max_range = -1;        // largest distance from the target in the tree; -1: no limit
  bool search_minimal = true;  // stop after the smallest size that explains
  Index max_judged = -1;       // stop after so many sets; -1: no limit
  // Told the sets of a size before they are judged one by one: a model is asked faster about many at once.
  std::function<void(const std::vector<Nodes>& sets)> prepare = {};
};

struct TokenSet {
  Nodes tokens;
  Index distance = 0;  // sum of the distances from the target
};

struct Explanations {
  PdsTree tree;                      // rooted at the target
  Nodes members;                     // every token of the tree but the target
  std::vector<TokenSet> candidates;  // in the order in which they were tested
  std::vector<TokenSet> found;
  bool complete = true;  // false: max_judged ended the search
};

// CLEANN on a graph that ICD has learnt. Without a function that judges, `found` is the whole set of members if it is
// small enough, and `candidates` is empty. Throws InvalidArgument for a target that is no node.
SADDLE_API Explanations explain(const Graph& graph, Index target, const IsExplanation& judge = {},
                                const ExplainOptions& options = {});

// The comparison: all sets of all other nodes, in lexicographic order, sizes 1 to n-1.
SADDLE_API std::vector<Nodes> explain_exhaustively(Index n, Index target, const IsExplanation& judge,
                                                   const ExplainOptions& options = {});

}  // namespace saddle::analysis::causal_discovery
