// Do heads say different things? Distances and similarity between the outputs of the heads of every layer.
#pragma once

#include "saddle/analysis/registry.hpp"

namespace saddle::analysis::head_redundancy {

// Of one layer, over samples, tokens that exist and pairs of heads. Heads whose outputs are all 0 say nothing, so they
// repeat nothing: they are named and, but for `pairs`, left out.
struct Measures {
  double distance = 0, deviation = 0;  // |y_s - y_t|, mean and standard deviation
  double norm = 0;                     // mean |y_s|
  double relative = 0;                 // distance / norm; sqrt 2 for heads that are orthogonal and of equal size
  double cosine = 0;                   // mean cosine of y_s and y_t
  double cka = 0;                      // mean linear CKA between the outputs of two heads over tokens
  Array<double, 2> pairs;              // [H,H], mean |y_s - y_t| by the norm
  Array<double, 2> cosines, ckas;      // [H,H]; 0 where one of the two is silent
  std::vector<Index> silent;           // heads whose outputs are 0 at every token
};

// heads [B,H,N,E], lengths [B]. Throws InvalidArgument when no token exists.
SADDLE_API Measures measure(const Array<double, 4>& heads, const std::vector<Index>& lengths);

SADDLE_API const Analysis& analysis();

}  // namespace saddle::analysis::head_redundancy
