// Convolution over the features of each token, or over tokens: shifted multiply-adds over rows.
#pragma once

#include "saddle/kernels/stages/transforms.hpp"

namespace saddle::kernels::stages {

// Conv1d and Conv2d alike, y(r,c) = sum_f theta(f) x(r + fr - Pr, c + fc - Pc): a 1d convolution has a grid of one row.
struct Convolution {
  primal::Grid grid, size;
  primal::Axis axis = primal::Axis::feature;
};
Convolution over(const primal::Conv1d& conv, Index n, Index D);
Convolution over(const primal::Conv2d& conv, Index n, Index D);

// in [n,D] -> out [n,D], another memory. Over tokens, those not in keep_in count as zero; outputs not in keep_out are
// zero.
template <class T>
void convolve(const Convolution& conv, std::span<const double> theta, Rows<const T> in, Rows<T> out, Index n, Index D,
              Kept keep_in, Kept keep_out);

// dy -> dx in place. dtheta is added to; empty: not wanted.
template <class T>
void convolve_pullback(const Convolution& conv, std::span<const double> theta, Rows<const T> in, Rows<T> gradient,
                       Index n, Index D, Kept keep_in, Kept keep_out, std::span<double> dtheta);

}  // namespace saddle::kernels::stages
