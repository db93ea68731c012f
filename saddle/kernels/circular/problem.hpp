// One call of the circular kernel, forward or backward, and the three ways to serve its heads.
#pragma once

#include <vector>

#include "saddle/kernels/circular/signal.hpp"

namespace saddle::kernels::circular {

// Forward: y. Backward, where dy is there: dw, and dv if that is there.
template <class T>
struct Problem {
  CircularShape shape;
  Direction direction = Direction::convolution;
  View<const T, 4> w, v, dy;
  View<T, 4> y, dw, dv;
  const Core<T>& core;
};

// What decides between the forms, measured. A multiply-add of the direct form, in units of transform_cost: with 64
// channels the forms meet near n = 30 where transforms have length n, near n = 70 where sums are folded.
inline constexpr double direct_unit = 1.5;
// Heads abreast take three transforms forward; their short rows are as much work as two more.
inline constexpr double transforms_abreast = 5;

constexpr Direction opposite(Direction direction) {
  return direction == Direction::convolution ? Direction::correlation : Direction::convolution;
}

// Heads of equal length.
struct Bundle {
  Index n = 0, length = 0;  // of its transforms
  std::vector<Head> heads;
};
// At most `most` heads each, shortest first.
std::vector<Bundle> bundle(std::vector<Head> heads, Index most);

// How many heads of D channels lie side by side in the lanes of a signal; 1: a head has signals of its own.
constexpr Index heads_abreast(Index D, Index lanes) { return std::max<Index>(1, lanes / ((D + 1) / 2)); }

// Each head by sums over all pairs of tokens.
template <class T>
void run_direct(const Problem<T>& problem, const std::vector<Head>& heads);
// The spectrum of a head's kernel serves all lanes of its signals.
template <class T>
void run_wide(const Problem<T>& problem, const std::vector<Head>& heads);
// Several narrow heads in a signal, each with its kernel in its lanes.
template <class T>
void run_abreast(const Problem<T>& problem, const std::vector<Head>& heads);
// A kernel for each channel; two sequences share the lanes.
template <class T>
void run_channels(const Problem<T>& problem, const std::vector<Head>& heads);

}  // namespace saddle::kernels::circular
