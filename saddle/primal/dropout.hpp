// Which weights dropout leaves out: 16 random bits per pair (query i, key j) of a head, from a counter.
#pragma once

#include <algorithm>
#include <cmath>

#include "saddle/base/random.hpp"
#include "saddle/primal/call.hpp"

namespace saddle::primal {

// A weight is dropped when its 16 bits are below this.
inline std::uint32_t dropout_threshold(const Dropout& dropout) {
  return static_cast<std::uint32_t>(std::lround(std::clamp(dropout.p, 0.0, 1.0) * 65536));
}

// 1/(1 - p) with the p that the threshold stands for; 0 when everything is dropped.
inline double dropout_factor(const Dropout& dropout) {
  const std::uint32_t threshold = dropout_threshold(dropout);
  return threshold < 65536 ? 65536.0 / (65536.0 - threshold) : 0;
}

// The key of the stream; the upper half of the offset goes here, the lower half into the counter.
inline std::uint64_t dropout_seed(const Dropout& dropout) { return dropout.seed ^ (dropout.offset >> 32 << 32); }

// Rounds of Philox: drawing costs a good part of a small head's time, so no more than the tests of randomness ask for.
inline constexpr int dropout_rounds = 7;

// Philox of (i, j/8, b H + h, offset) under that key gives the 16 bits of keys 8 floor(j/8) .. + 7 in order.
inline bool is_dropped(const Dropout& dropout, Index head, Index i, Index j) {
  const std::uint64_t seed = dropout_seed(dropout);
  const auto words = philox({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j / 8),
                             static_cast<std::uint32_t>(head), static_cast<std::uint32_t>(dropout.offset)},
                            {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}, dropout_rounds);
  const std::uint32_t bits = (words[j % 8 / 2] >> (j % 2 * 16)) & 0xffffu;
  return bits < dropout_threshold(dropout);
}

}  // namespace saddle::primal
