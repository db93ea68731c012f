// Possible-d-separation: nodes on paths from a root whose every inner node is a collider or part of a triangle.
#pragma once

#include "saddle/analysis/causal_discovery/graph.hpp"

namespace saddle::analysis::causal_discovery {

struct PdsTree {
  struct Vertex {
    Index node = 0;
    Index parent = -1;  // a vertex; the root has none
    Index depth = 0;
    Index first = 0, end = 0;  // its children are the vertices from `first` up to `end`
  };
  std::vector<Vertex> vertices;  // breadth first, the root first; a node may appear several times
  std::vector<Index> distance;   // of every node of the graph: the smallest depth at which it appears, -1 if nowhere

  // All nodes of the tree but the root, ascending.
  SADDLE_API Nodes members() const;
  // Sets of `size` members out of `allowed` (not 0 for those that may be used), in lexicographic order, in which every
  // node is reached from the root through nodes of the set alone.
  SADDLE_API std::vector<Nodes> closed_sets(Index size, const std::vector<char>& allowed) const;
  // The same, the members of all sets one after the other; size must be 1 or more.
  SADDLE_API std::vector<Index> closed_rows(Index size, const std::vector<char>& allowed) const;
};

// Every edge of the graph is used at most once; max_depth -1: no limit.
SADDLE_API PdsTree pds_tree(const Graph& graph, Index root, Index max_depth = -1);

}  // namespace saddle::analysis::causal_discovery
