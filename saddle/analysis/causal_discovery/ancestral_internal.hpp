// The groups of orientation rules that FCI and ICD apply.
#pragma once

#include <array>

#include "saddle/analysis/causal_discovery/learn.hpp"
#include "saddle/analysis/causal_discovery/orientation.hpp"

namespace saddle::analysis::causal_discovery {

// Forgets all marks, then rule 0 and rules 1 to 4.
inline void orient_arrows(Graph& graph, const SeparatingSets& separating) {
  graph.set_all(Mark::circle);
  orient_colliders(graph, separating);
  apply_rules(std::array{1, 2, 3, 4}, graph, separating);
}

// Rules 5 to 7 and 8 to 10, as far as the options want them.
inline void orient_tails(Graph& graph, const SeparatingSets& separating, const Options& options) {
  if (options.selection_bias) apply_rules(std::array{5, 6, 7}, graph, separating);
  if (options.tail_completeness) apply_rules(std::array{8, 9, 10}, graph, separating, options.strict_r10);
}

}  // namespace saddle::analysis::causal_discovery
