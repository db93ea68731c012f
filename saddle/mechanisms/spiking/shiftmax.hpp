// Shiftmax: a softmax to the base 2 whose row sum is rounded up to a power of two, so that all weights are powers of
// two.
#pragma once

#include <cmath>

#include "saddle/base/tape.hpp"

namespace saddle::mechanisms::spiking {

// ceil(log2 s) of s > 0, exactly.
template <class T>
int ceil_log2(T s) {
  int exponent = 0;
  return std::frexp(s, &exponent) == T(0.5) ? exponent - 1 : exponent;
}

// 2^x, exactly where x is whole; 0 for -inf.
SADDLE_API double power_of_two(double x);

// score [..,n], whole numbers or -inf where a key is masked.
struct Shiftmax {
  tape::Value weight;          // [..,n]: 2^(score - gamma); dweight/dscore = ln 2 weight, gamma counts as constant
  tape::Value gamma, row_sum;  // [..]: ceil(log2 of the sum of 2^score), 0 without any key; the sum of the weights
};
SADDLE_API Shiftmax shiftmax(const tape::Value& score);

}  // namespace saddle::mechanisms::spiking
