// A graph with marks at the ends of its edges, drawn.
#pragma once

#include <string>

#include "saddle/analysis/result.hpp"

namespace saddle::cli {

// Nodes beyond this many are no picture any more.
inline constexpr std::size_t most_drawn = 60;

// An SVG of the nodes and edges; arrowheads, circles and bare ends as the network has them. Empty where there are more
// than most_drawn nodes, or none.
std::string network_svg(const analysis::Network& network);

}  // namespace saddle::cli
