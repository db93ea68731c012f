// Lengths of transforms, and what a transform of a length needs: its stages and the roots of unity between them.
#pragma once

#include <memory>
#include <vector>

#include "saddle/base/view.hpp"

namespace saddle::kernels::circular {

// Length of the transform that gives sums modulo n: n itself where its prime factors are 2, 3, 5 and 7, else that of
// linear sums, to be folded.
Index circular_length(Index n);
// Length of the transform that gives linear sums of two sequences of n: at least 2n-1, whichever is fastest.
Index linear_length(Index n);
// Vector instructions of one transform of this length, about.
double transform_cost(Index length);

// A transform of `length` = radix x part: `part` butterflies, a turn of all but their first outputs, then `radix`
// transforms of length `part`.
struct Stage {
  int radix = 1;
  Index length = 1, part = 1;
  Index turns = 0;  // where its roots start in Plan::turns: radix-1 numbers, (re,im), for each butterfly
};

template <class T>
struct Plan {
  Index length = 1;
  std::vector<Stage> stages;  // at least one
  std::vector<T> turns;
};

// Plans are kept, so many bytes of them, for the next call.
inline constexpr std::size_t plan_memory = std::size_t{64} << 20;
template <class T>
std::shared_ptr<const Plan<T>> plan(Index length);

}  // namespace saddle::kernels::circular
