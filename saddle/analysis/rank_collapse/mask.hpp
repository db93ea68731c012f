// Attention masks as graphs: the usual families, and what decides whether stacked attention collapses.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "saddle/base/export.hpp"
#include "saddle/base/view.hpp"

namespace saddle::analysis::rank_collapse {

// [N,N]; (i,j) is not 0 where token i attends to token j, which is the edge j -> i.
using Mask = Array<std::uint8_t, 2>;

SADDLE_API Mask complete_mask(Index N);
SADDLE_API Mask causal_mask(Index N);
SADDLE_API Mask sliding_mask(Index N, Index window);      // |i-j| <= window
SADDLE_API Mask uni_sliding_mask(Index N, Index window);  // 0 <= i-j <= window: `window` earlier tokens and itself
SADDLE_API Mask prefix_mask(Index N, Index prefix);       // causal, and everybody sees the first `prefix` tokens
SADDLE_API Mask star_mask(Index N, Index centre);         // everybody sees itself and the centre
SADDLE_API Mask blocks_mask(Index N, Index size);         // everybody sees the tokens of its block

// By the names complete, causal, sliding, uni_sliding, prefix, star and blocks; `size` is the window, prefix, centre or
// block. Throws InvalidArgument for other names, with the nearest.
SADDLE_API Mask make_mask(std::string_view kind, Index N, Index size = 0);
SADDLE_API std::vector<std::string_view> mask_kinds();

// The mask without the tokens that `keep` [N] drops.
SADDLE_API Mask without_padding(const Mask& mask, const std::vector<bool>& keep);

struct Graph {
  std::vector<Index> eccentricity;        // longest shortest path from a token along edges, -1 if it does not reach all
  std::vector<bool> centre;               // reaches all tokens
  Index radius = -1;                      // smallest eccentricity of a centre, -1 without one
  Index nearest_centres = 0;              // centres of that eccentricity
  bool quasi_strongly_connected = false;  // there is a centre
  bool strongly_connected = false;        // all tokens reach all
  bool self_loops = false;                // every token attends to itself
};
SADDLE_API Graph graph_of(const Mask& mask);

}  // namespace saddle::analysis::rank_collapse
