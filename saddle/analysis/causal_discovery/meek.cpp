// Orientation without hidden causes.
#include "saddle/analysis/causal_discovery/orientation.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

// Whether an undirected x - y must be x -> y.
bool away_from_collider(const Graph& graph, Index x, Index y) {
  for (Index z = 0; z < graph.size(); ++z)
    if (z != y && graph.parent(z, x) && !graph.adjacent(z, y)) return true;
  return false;
}

bool away_from_cycle(const Graph& graph, Index x, Index y) {
  for (Index z = 0; z < graph.size(); ++z)
    if (graph.parent(x, z) && graph.parent(z, y)) return true;
  return false;
}

bool double_triangle(const Graph& graph, Index x, Index y) {
  Nodes between;
  for (Index z = 0; z < graph.size(); ++z)
    if (graph.undirected(x, z) && graph.parent(z, y)) between.push_back(z);
  for (const Index w : between)
    for (const Index z : between)
      if (w < z && !graph.adjacent(w, z)) return true;
  return false;
}

bool pass(Graph& graph, bool (*directed)(const Graph&, Index, Index)) {
  bool modified = false;
  for (Index y = 0; y < graph.size(); ++y)
    for (Index x = 0; x < graph.size(); ++x) {
      if (x == y || !graph.undirected(x, y) || !directed(graph, x, y)) continue;
      graph.set(x, y, Mark::arrow);
      modified = true;
    }
  return modified;
}

}  // namespace

void orient_directed(Graph& graph, const SeparatingSets& separating) {
  orient_colliders(graph, separating);
  for (Index a = 0; a < graph.size(); ++a)
    for (Index b = 0; b < a; ++b)
      if (graph.has(a, Mark::arrow, Mark::arrow, b)) {
        graph.set(a, b, Mark::tail);
        graph.set(b, a, Mark::tail);
      }
  for (bool modified = true; modified;) {
    modified = pass(graph, away_from_collider);
    modified = pass(graph, away_from_cycle) || modified;
    modified = pass(graph, double_triangle) || modified;
  }
}

}  // namespace saddle::analysis::causal_discovery
