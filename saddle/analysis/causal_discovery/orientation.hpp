// Rules that put arrows and tails on a skeleton: Meek's for graphs without hidden causes, Zhang's for those with.
#pragma once

#include <span>

#include "saddle/analysis/causal_discovery/graph.hpp"

namespace saddle::analysis::causal_discovery {

// Rule 0: x *-> z <-* y for neighbours x, y of z that are not adjacent and were separated without z. Other marks stay.
SADDLE_API void orient_colliders(Graph& graph, const SeparatingSets& separating);

// One call of rule 1 to 10; whether it changed anything. Throws InvalidArgument for another number.
SADDLE_API bool apply_rule(int rule, Graph& graph, const SeparatingSets& separating, bool strict_r10 = false);

// The rules in this order, again and again until none changes anything.
SADDLE_API void apply_rules(std::span<const int> rules, Graph& graph, const SeparatingSets& separating,
                            bool strict_r10 = false);

// A skeleton with tails becomes a completed partially directed graph: colliders, then Meek's rules 1 to 3. An edge that
// two colliders point in opposite directions stays undirected.
SADDLE_API void orient_directed(Graph& graph, const SeparatingSets& separating);

}  // namespace saddle::analysis::causal_discovery
