// Random convolutions of series: ROCKET (Dempster, Petitjean and Webb, 2020).
#pragma once

#include <cstdint>
#include <vector>

#include "saddle/eval/ridge.hpp"

namespace saddle::eval {

struct RocketKernel {
  Index length = 0, dilation = 1, padding = 0;
  std::vector<Index> channels;  // that it looks at, ascending
  std::vector<float> weights;   // [channels, length], those of a channel have sum 0
  float bias = 0;
};

// For series of this length: kernels of 7, 9 or 11 taps (fewer if the series is shorter), weights from N(0,1) less
// their mean, bias from U(-1,1), dilation 2^U so that the kernel fits, padding in one half of them, and of several
// channels a random part.
std::vector<RocketKernel> rocket_kernels(Index count, Index length, Index channels, std::uint64_t seed);

// Of series [n, channels x length], one channel behind the other: for every kernel the maximum of its output and the
// share of the output that is above 0. [n, 2 kernels]
Features rocket_features(const Features& series, Index channels, const std::vector<RocketKernel>& kernels);

}  // namespace saddle::eval
