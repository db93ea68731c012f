// Causal graphs as text: edges, Graphviz, JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "saddle/analysis/causal_discovery/request.hpp"
#include "saddle/analysis/result.hpp"

namespace saddle::analysis::causal_discovery {

// "none", "circle", "arrow", "tail"
SADDLE_API std::string_view to_string(Mark mark);

// The edge with its marks: "-->", "<--", "<->", "o->", "<-o", "o-o", "o--", "--o", "---".
SADDLE_API std::string edge_text(const Graph& graph, Index a, Index b);

// A digraph with one label per node; the target, if any, is drawn twice around.
SADDLE_API std::string to_dot(const Graph& graph, const std::vector<std::string>& names,
                              std::optional<Index> target = {});

// For a page; `file` is where the digraph stands. The target and the nodes `marked` stand out.
SADDLE_API Network to_network(const Answer& answer, const std::string& title, const std::string& file,
                              const Nodes& marked = {});

// How the graph was found: "algorithm: icd, test: fisher_z, alpha: 0.01, n: 768".
SADDLE_API std::string settings_text(const Answer& answer);

// What was asked, the nodes, the edges with their marks, the separating sets, the tests per size, the rounds of ICD and
// the explanations.
SADDLE_API std::string to_json(const Answer& answer);

}  // namespace saddle::analysis::causal_discovery
