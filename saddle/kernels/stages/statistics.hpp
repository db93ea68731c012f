// Statistics of the keys, accumulated in double.
#pragma once

#include "saddle/kernels/stages/rows.hpp"
#include "saddle/primal/transform.hpp"

namespace saddle::kernels::stages {

// Mean and 1/s^2 = 1/(variance + eps) of the existing keys, each [D]; square is 1 without scale=std, and 0 for a
// feature in which all keys agree exactly. n = 0: there is nothing to normalise by.
struct KeyStatistics {
  Index n = 0;
  std::vector<double> mean, square;
};

// k [K,D]
template <class T>
KeyStatistics key_statistics(const primal::BatchNorm& bn, Reader<T>& k, Index K, Kept keep);

// The mean [D] of the existing keys alone, zeros when there are none; returns their number.
template <class T>
Index key_mean(Reader<T>& k, Index K, Kept keep, std::vector<double>& mean);

// sum [C] += the existing rows of x [n,C]; returns their number. Eight rows at a time are first added as T.
template <class T>
Index add_rows(Reader<T>& x, Index n, Kept keep, double* sum);

// 1/(variance + eps), or 0 where that is not positive.
inline double inverse_square(double variance, double eps) { return variance + eps > 0 ? 1 / (variance + eps) : 0; }

}  // namespace saddle::kernels::stages
