#include "saddle/kernels/stages/fold.hpp"

#include <algorithm>

#include "saddle/kernels/stages/row_loops.hpp"

namespace saddle::kernels::stages {

template <class T>
GlobalFold<T>::GlobalFold(KeyStatistics statistics, double beta, double a)
    : statistics_(std::move(statistics)), beta_(beta), a_(a) {
  for (double mean : statistics_.mean) shift_.push_back(static_cast<T>(beta * mean));
  for (double square : statistics_.square) factor_.push_back(static_cast<T>(square));
}

template <class T>
void GlobalFold<T>::row_terms(Reader<T>& q, Index N, T* row) const {
  const Index D = q.columns();
  std::vector<T> weight(D);
  for (Index d = 0; d < D; ++d) weight[d] = -static_cast<T>(a_) * factor_[d] * shift_[d];
  const T *s = shift(), *w = weight.data();
  Index i = 0;
  for (; i + 4 <= N; i += 4) {  // four sums at once hide each other's latency
    const T *x0 = q.row(i, 0), *x1 = q.row(i + 1, 1), *x2 = q.row(i + 2, 2), *x3 = q.row(i + 3, 3);
    T r0{}, r1{}, r2{}, r3{};
#pragma omp simd reduction(+ : r0, r1, r2, r3)
    for (Index d = 0; d < D; ++d) {
      r0 += (x0[d] - s[d]) * w[d];
      r1 += (x1[d] - s[d]) * w[d];
      r2 += (x2[d] - s[d]) * w[d];
      r3 += (x3[d] - s[d]) * w[d];
    }
    row[i] = r0;
    row[i + 1] = r1;
    row[i + 2] = r2;
    row[i + 3] = r3;
  }
  for (; i < N; ++i) row[i] = shifted_dot(q.row(i), s, w, D);
}

// With g_i = dq''_i - a beta dr_i mu: dq_i = g_i/s^2, dmu = -beta u and dbeta = -<u,mu> where u is the sum of
// g_i/s^2 + a dr_i q''_i, and dvariance = -sum_i g_i (q_i - beta mu)/s^4. The existing keys form mu and the variance.
template <class T>
void GlobalFold<T>::pullback(Reader<T>& q, Index N, Reader<T>& k, Index K, Kept keep, FoldGradient<T>& gradient) const {
  const Index D = q.columns();
  const bool scaled =
      std::any_of(statistics_.square.begin(), statistics_.square.end(), [](double s) { return s != 1; });
  std::vector<double> slopes(D, 0.0), deviations(D, 0.0), rows(D, 0.0);
  double* __restrict sum = slopes.data();
  double* __restrict deviation = deviations.data();
  double* __restrict along = rows.data();
  const T *s = shift(), *f = factor();
  for (Index i = 0; i < N && (scaled || gradient.drow != nullptr); ++i) {
    const T* __restrict x = q.row(i);
    T* __restrict g = gradient.dq[i];
    if (gradient.drow != nullptr) {
      const T slope = gradient.drow[i], scale = static_cast<T>(a_) * slope;
#pragma omp simd
      for (Index d = 0; d < D; ++d) {
        g[d] -= scale * s[d];
        along[d] += static_cast<double>(slope * ((x[d] - s[d]) * f[d]));
      }
    }
    if (!scaled) continue;
#pragma omp simd
    for (Index d = 0; d < D; ++d) {
      sum[d] += static_cast<double>(g[d]);
      deviation[d] += static_cast<double>(g[d] * (x[d] - s[d]));
      g[d] *= f[d];
    }
  }
  if (!scaled) {
    Reader<T> plain(gradient.dq, D);
    add_rows(plain, N, {}, sum);
  }
  std::vector<T> constant(D), slope(D), mean(D);  // dk += constant + slope (k - mean)
  const double n = static_cast<double>(statistics_.n);
  for (Index d = 0; d < D; ++d) {
    const double square = statistics_.square[d], u = square * sum[d] + a_ * along[d];
    gradient.dbeta -= u * statistics_.mean[d];
    constant[d] = static_cast<T>(-beta_ * u / n);
    slope[d] = static_cast<T>(-2 * square * square * deviation[d] / n);
    mean[d] = static_cast<T>(statistics_.mean[d]);
  }
  if (!gradient.dk) return;
  for (Index j = 0; j < K; ++j) {
    if (!kept_at(keep, j)) continue;
    T* __restrict dk = gradient.dk[j];
    const T* __restrict c = constant.data();
    if (!scaled) {
      for (Index d = 0; d < D; ++d) dk[d] += c[d];
      continue;
    }
    const T* __restrict key = k.row(j);
    for (Index d = 0; d < D; ++d) dk[d] += c[d] + slope[d] * (key[d] - mean[d]);
  }
}

template class GlobalFold<float>;
template class GlobalFold<double>;

}  // namespace saddle::kernels::stages
