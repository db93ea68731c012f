// Fuzzy logic functions in context, of "Attention as a Hypernetwork", as classification: the level of the last value.
#pragma once

#include <vector>

#include "saddle/base/random.hpp"
#include "saddle/data/generate/generate.hpp"
#include "saddle/mechanisms/hyla/fuzzy_logic.hpp"

namespace saddle::data {

// A function at `length` random points: rows (x_1, .., x_V, y), the last with 0 for its y, which is `target`.
struct FuzzySequence {
  std::vector<float> rows;
  double target = 0;
};
FuzzySequence draw_fuzzy_sequence(Stream& stream, const mechanisms::hyla::fuzzy_logic::Bits& function, Index variables,
                                  Index length);

// Functions to train on, others of the same conjunctions, and functions of conjunctions that training never sees.
struct FuzzyFunctions {
  std::vector<mechanisms::hyla::fuzzy_logic::Bits> train, test, other;
};
FuzzyFunctions fuzzy_functions(Index variables, Index terms, double held_out, std::uint64_t seed);

Generator fuzzy_logic_generator();

}  // namespace saddle::data
