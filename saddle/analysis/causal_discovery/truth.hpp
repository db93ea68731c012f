// A causal graph beside the true one.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "saddle/analysis/causal_discovery/graph.hpp"

namespace saddle::analysis::causal_discovery {

// Causes and effects, by name.
using TrueEdges = std::vector<std::pair<std::string, std::string>>;

// From lines such as "3. smoke --> bronc", or from a table whose first two columns are cause and effect. Lines of other
// kinds before the edges are skipped in the first form. Throws DataError where there is no edge, and where a variable
// is its own cause.
SADDLE_API TrueEdges parse_truth(std::string_view text, const std::string& file);
// Throws IoError.
SADDLE_API TrueEdges read_truth(const std::string& file);

struct Agreement {
  Index true_edges = 0;                // pairs of nodes of the graph that truly are adjacent
  Index true_arrows = 0;               // causes with their effects; more than true_edges where two cause each other
  Index edges = 0, right_edges = 0;    // found; of these between nodes that truly are adjacent
  Index arrows = 0, right_arrows = 0;  // arrowheads found; of these at the effect of a true edge
  Index skipped = 0;                   // true edges of variables that the graph does not have

  // NaN where nothing was found, or nothing is true.
  SADDLE_API double precision() const;
  SADDLE_API double recall() const;
  SADDLE_API double arrow_precision() const;
  SADDLE_API double arrow_recall() const;  // a true edge has one arrowhead; not all can be told from data
};
// Throws InvalidArgument if no true edge is between nodes of the graph.
SADDLE_API Agreement compare(const Graph& graph, const std::vector<std::string>& names, const TrueEdges& truth);

}  // namespace saddle::analysis::causal_discovery
