// S-RAVEN of "Attention as a Hypernetwork" as classification: the last panel of a grid, one of its features at a time.
#pragma once

#include <vector>

#include "saddle/base/random.hpp"
#include "saddle/data/generate/generate.hpp"
#include "saddle/mechanisms/hyla/sraven.hpp"

namespace saddle::data {

inline constexpr int sraven_features = 4;

// Panels [row][column][feature] of a grid whose feature f follows rules[f], before each column permutes its features.
mechanisms::hyla::sraven::Square<std::vector<Index>> draw_sraven(Stream& stream, const std::vector<int>& rules);

// The combinations of four rules that are trained on, 248, and those held out, 82, at random.
struct SravenCombinations {
  std::vector<std::vector<int>> known, held_out;
};
SravenCombinations sraven_combinations(std::uint64_t seed);

// Sequences of 36 tokens: 1 .. 8 are the features 0 .. 7 of eight panels, then come four of the answer, 10 where it is
// asked for, 9 elsewhere.
Generator sraven_generator();

}  // namespace saddle::data
