// Where the nodes of a graph are drawn.
#pragma once

#include <utility>
#include <vector>

#include "saddle/base/view.hpp"

namespace saddle::cli {

struct Box {
  double width = 0, height = 0;
};

struct Layout {
  std::vector<std::pair<double, double>> centres;  // one for each box
  double width = 0, height = 0;                    // of all of it
};

// Places n boxes so that the distances between them follow the numbers of edges between them (stress majorisation), no
// two overlap, and few edges cross; parts that hang together stand beside each other, boxes without edges in rows
// below. The same input gives the same layout. Edges are pairs of numbers below n.
Layout lay_out(const std::vector<Box>& boxes, const std::vector<std::pair<Index, Index>>& edges, double width);

// Pairs of edges of the layout that cross, and boxes that an edge passes through: what a reader stumbles over.
Index crossings(const Layout& layout, const std::vector<Box>& boxes, const std::vector<std::pair<Index, Index>>& edges);

}  // namespace saddle::cli
