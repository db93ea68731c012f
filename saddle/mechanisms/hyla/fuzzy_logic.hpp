// Fuzzy logic functions: disjunctions of T conjunctions over V variables in [0,1], each of which a conjunction takes as
// it is or negates.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "saddle/base/export.hpp"
#include "saddle/base/view.hpp"

namespace saddle::mechanisms::hyla::fuzzy_logic {

using Bits = std::vector<std::uint8_t>;  // T conjunctions of V bits each, 0: negated

// By Zadeh: max over conjunctions of min over variables.
SADDLE_API double value_of(const Bits& function, std::span<const double> x);
// 1 - prod over conjunctions of (1 - prod over variables).
SADDLE_API double product_of(const Bits& function, std::span<const double> x);

// Functions of T different conjunctions out of the 2^V, which are counted in binary. Those made of the last quarter of
// the conjunctions are `other`, a new distribution; those of the rest are `known`, in lexicographic order.
struct Functions {
  std::vector<Bits> known, other;
};
SADDLE_API Functions functions(Index variables, Index terms);

}  // namespace saddle::mechanisms::hyla::fuzzy_logic
