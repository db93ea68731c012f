#include "saddle/kernels/stages/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace saddle::kernels::stages {

namespace {

// Calls eight(rows) for the existing rows of x [n,C], eight at a time since a pass over the sums costs more than an
// addition, and one(row) for the last few.
template <class T, class Eight, class One>
void for_each_eight(Reader<T>& x, Index n, Kept keep, Eight&& eight, One&& one) {
  const T* rows[8];
  int filled = 0;
  for (Index j = 0; j < n; ++j) {
    if (!kept_at(keep, j)) continue;
    rows[filled] = x.row(j, filled);
    if (++filled < 8) continue;
    eight(rows);
    filled = 0;
  }
  for (int r = 0; r < filled; ++r) one(rows[r]);
}

// Eight rows are first added as A.
template <class A, class T>
Index add_rows_as(Reader<T>& k, Index K, Kept keep, double* sum) {
  const Index D = k.columns();
  Index n = 0;
  for_each_eight(
      k, K, keep,
      [&](const T* const* x) {
        const T *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3], *x4 = x[4], *x5 = x[5], *x6 = x[6], *x7 = x[7];
#pragma omp simd
        for (Index d = 0; d < D; ++d)
          sum[d] += static_cast<double>(((A{x0[d]} + A{x1[d]}) + (A{x2[d]} + A{x3[d]})) +
                                        ((A{x4[d]} + A{x5[d]}) + (A{x6[d]} + A{x7[d]})));
        n += 8;
      },
      [&](const T* x) {
        for (Index d = 0; d < D; ++d) sum[d] += static_cast<double>(x[d]);
        ++n;
      });
  return n;
}

}  // namespace

template <class T>
Index add_rows(Reader<T>& x, Index n, Kept keep, double* sum) {
  return add_rows_as<T>(x, n, keep, sum);
}

// Eight rows added as T lose less than the mean loses when it becomes a T; the sum of those is taken in double.
template <class T>
Index key_mean(Reader<T>& k, Index K, Kept keep, std::vector<double>& mean) {
  mean.assign(k.columns(), 0.0);
  Index n = add_rows(k, K, keep, mean.data());
  // Eight large numbers may leave the range of float.
  if (!std::all_of(mean.begin(), mean.end(), [](double x) { return std::isfinite(x); })) {
    mean.assign(k.columns(), 0.0);
    n = add_rows_as<double>(k, K, keep, mean.data());
  }
  const double inverse = n > 0 ? 1 / static_cast<double>(n) : 0;
  for (double& x : mean) x *= inverse;
  return n;
}

template <class T>
KeyStatistics key_statistics(const primal::BatchNorm& bn, Reader<T>& k, Index K, Kept keep) {
  const Index D = k.columns();
  KeyStatistics s;
  s.n = key_mean(k, K, keep, s.mean);
  s.square.assign(D, 1.0);
  if (bn.scale != primal::ScaleMode::std || s.n == 0) return s;
  // Around the mean as T, and then a better mean too: the first lost a little where T was added.
  const std::vector<T> centres(s.mean.begin(), s.mean.end());
  std::vector<double> offsets(D, 0.0), squares(D, 0.0);
  const T* centre = centres.data();
  double *offset = offsets.data(), *square = squares.data();
  for_each_eight(
      k, K, keep,
      [&](const T* const* x) {
        const T *x0 = x[0], *x1 = x[1], *x2 = x[2], *x3 = x[3], *x4 = x[4], *x5 = x[5], *x6 = x[6], *x7 = x[7];
#pragma omp simd
        for (Index d = 0; d < D; ++d) {
          const T m = centre[d], y0 = x0[d] - m, y1 = x1[d] - m, y2 = x2[d] - m, y3 = x3[d] - m, y4 = x4[d] - m,
                  y5 = x5[d] - m, y6 = x6[d] - m, y7 = x7[d] - m;
          offset[d] += static_cast<double>(((y0 + y1) + (y2 + y3)) + ((y4 + y5) + (y6 + y7)));
          square[d] += static_cast<double>(((y0 * y0 + y1 * y1) + (y2 * y2 + y3 * y3)) +
                                           ((y4 * y4 + y5 * y5) + (y6 * y6 + y7 * y7)));
        }
      },
      [&](const T* x) {
        for (Index d = 0; d < D; ++d) {
          const T y = x[d] - centre[d];
          offset[d] += static_cast<double>(y);
          square[d] += static_cast<double>(y * y);
        }
      });
  const double n = static_cast<double>(s.n);
  for (Index d = 0; d < D; ++d) {
    const double off = offset[d] / n;
    s.mean[d] = static_cast<double>(centre[d]) + off;
    s.square[d] = inverse_square(std::max(square[d] / n - off * off, 0.0), bn.eps);
  }
  return s;
}

template Index add_rows(Reader<float>&, Index, Kept, double*);
template Index add_rows(Reader<double>&, Index, Kept, double*);
template Index key_mean(Reader<float>&, Index, Kept, std::vector<double>&);
template Index key_mean(Reader<double>&, Index, Kept, std::vector<double>&);
template KeyStatistics key_statistics(const primal::BatchNorm&, Reader<float>&, Index, Kept);
template KeyStatistics key_statistics(const primal::BatchNorm&, Reader<double>&, Index, Kept);

}  // namespace saddle::kernels::stages
