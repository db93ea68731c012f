// Paths that the orientation rules ask for.
#pragma once

#include <functional>
#include <optional>

#include "saddle/analysis/causal_discovery/graph.hpp"

namespace saddle::analysis::causal_discovery {

// The start d of a path d *-> .. <-> a <-* b, all between d and b colliders and parents of c, d not adjacent to c.
std::optional<Index> discriminating_start(const Graph& graph, Index a, Index b, Index c);

using EdgeCondition = std::function<bool(Index, Index)>;

// The nodes between x and y of a path x, from, .., to, y without a chord between nodes two steps apart, every edge
// between `from` and `to` allowed. A path of one node, from = to, is not checked further. Nothing if there is none.
std::optional<std::vector<Index>> uncovered_path(const Graph& graph, Index x, Index y, Index from, Index to,
                                                 const EdgeCondition& allowed);

}  // namespace saddle::analysis::causal_discovery
