// S-RAVEN: grids of 3 x 3 panels whose features follow rules along the rows; the last panel is asked for.
#pragma once

#include <array>
#include <vector>

#include "saddle/base/export.hpp"
#include "saddle/base/view.hpp"

namespace saddle::mechanisms::hyla::sraven {

inline constexpr int size = 3;            // rows and columns of the grid
inline constexpr int rule_count = 8;      // constant, four progressions, addition, subtraction, distribute three
inline constexpr Index rule_modulus = 8;  // features are 0 .. 7

template <class T>
using Square = std::array<std::array<T, size>, size>;  // [row][column]

// Whatever is random about one feature; each rule takes its share.
struct Draws {
  std::array<Index, size> first{}, second{};  // of each row: start or first operand, second operand
  std::array<Index, size> symbols{};          // distribute three
  Square<Index> permutations{};               // of the symbols, for each row
};

// Rule 0: all columns are `first`. 1 .. 4: steps of +1, +2, -1, -2 from it. 5 and 6: the third column is the sum or
// difference of first and second. 7: the symbols, permuted. All modulo `modulus`.
SADDLE_API Square<Index> grid_of(int rule, const Draws& draws, Index modulus = rule_modulus);

// Grids of F features to panels [row][column][feature]: column c shows feature permutations[c][f] at place f.
SADDLE_API Square<std::vector<Index>> panels_of(const std::vector<Square<Index>>& features,
                                                const std::array<std::vector<Index>, size>& permutations);

// The features of all panels but the last, row by row: 8 F numbers. The last panel is the answer.
SADDLE_API std::vector<Index> context_of(const Square<std::vector<Index>>& panels);

// All multisets of F rules, as sorted lists in lexicographic order: 330 for four features.
SADDLE_API std::vector<std::vector<int>> combinations(int features);

}  // namespace saddle::mechanisms::hyla::sraven
