#include "saddle/kernels/stages/transforms.hpp"

#include <algorithm>
#include <cmath>

#include "saddle/kernels/stages/convolution.hpp"
#include "saddle/kernels/stages/row_loops.hpp"
#include "saddle/kernels/stages/statistics.hpp"

namespace saddle::kernels::stages {

namespace {

// x' = (x - shift) factor. The shift comes in two parts, so that far-off data lose nothing.
template <class T>
struct Affine {
  std::vector<T> high, low, factor;  // [D]

  Affine(const KeyStatistics& s, double beta) : high(s.mean.size()), low(high.size()), factor(high.size()) {
    for (std::size_t d = 0; d < high.size(); ++d) {
      const double shift = beta * s.mean[d];
      high[d] = static_cast<T>(shift);
      low[d] = static_cast<T>(shift - static_cast<double>(high[d]));
      factor[d] = static_cast<T>(std::sqrt(s.square[d]));
    }
  }
  void map(const T* x, T* y) const {
    const T *a = high.data(), *b = low.data(), *f = factor.data();
    const auto D = static_cast<Index>(high.size());
#pragma omp simd
    for (Index d = 0; d < D; ++d) y[d] = ((x[d] - a[d]) - b[d]) * f[d];
  }
};

// Calls visit(i) for rows that exist and clears the output of the others.
template <class T, class Visit>
void for_each_row(Rows<T> out, Index n, Index D, Kept keep, Visit&& visit) {
  for (Index i = 0; i < n; ++i) {
    if (kept_at(keep, i))
      visit(i);
    else
      std::fill_n(out[i], D, T{});
  }
}

template <class T>
void run(const primal::BatchNorm& bn, std::span<const double> theta, const TokenRows<const T>& in,
         const TokenRows<T>& out) {
  Reader<T> k(in.k, in.D);
  const KeyStatistics s = key_statistics(bn, k, in.K, in.keep_keys);
  const Affine<T> affine = s.n > 0 ? Affine<T>(s, theta[0]) : Affine<T>({0, {}, {}}, 0);
  const auto map = [&](const T* x, T* y) {
    if (s.n > 0)
      affine.map(x, y);
    else
      std::copy_n(x, in.D, y);
  };
  for_each_row(out.q, in.N, in.D, {}, [&](Index i) { map(in.q[i], out.q[i]); });
  for_each_row(out.k, in.K, in.D, in.keep_keys, [&](Index j) { map(in.k[j], out.k[j]); });
}

// sums [D] over rows of dx' and, for the deviation, of dx' (x - beta mu).
template <class T>
void add_sums(Rows<const T> x, Rows<const T> dx, Index n, Index D, Kept keep, const double* shift, double* sum,
              double* weighted) {
  Reader<T> slopes(dx, D);
  add_rows(slopes, n, keep, sum);
  for (Index i = 0; i < n && weighted != nullptr; ++i) {
    if (!kept_at(keep, i)) continue;
    const T *value = x[i], *slope = dx[i];
#pragma omp simd
    for (Index d = 0; d < D; ++d)
      weighted[d] += static_cast<double>(slope[d]) * (static_cast<double>(value[d]) - shift[d]);
  }
}

// Both inputs feel the mean and the deviation, which only the existing keys form.
template <class T>
void run_back(const primal::BatchNorm& bn, std::span<const double> theta, const TokenRows<const T>& in,
              const TokenRows<T>& gradient, std::span<double> dtheta) {
  const Index D = in.D;
  Reader<T> k(in.k, D);
  const KeyStatistics s = key_statistics(bn, k, in.K, in.keep_keys);
  if (s.n == 0) return;
  const bool scaled = bn.scale == primal::ScaleMode::std;
  std::vector<double> shift(D), sum(D, 0.0), weighted(scaled ? D : 0, 0.0);
  std::vector<T> factor(D);
  for (Index d = 0; d < D; ++d) {
    shift[d] = theta[0] * s.mean[d];
    factor[d] = static_cast<T>(std::sqrt(s.square[d]));
  }
  const auto scale = [&](Rows<T> dx, Index n) {
    if (!scaled) return;
    for (Index i = 0; i < n; ++i) {
      T* slope = dx[i];
      const T* f = factor.data();
#pragma omp simd
      for (Index d = 0; d < D; ++d) slope[d] *= f[d];
    }
  };
  double* deviation = scaled ? weighted.data() : nullptr;
  if (gradient.q) {
    add_sums<T>(in.q, gradient.q, in.N, D, {}, shift.data(), sum.data(), deviation);
    scale(gradient.q, in.N);
  }
  if (!gradient.k) return;
  add_sums<T>(in.k, gradient.k, in.K, D, in.keep_keys, shift.data(), sum.data(), deviation);
  scale(gradient.k, in.K);

  std::vector<T> constant(D), slope(D);  // dk += constant + slope (k - mean)
  std::vector<T> mean(D);
  const double n = static_cast<double>(s.n);
  for (Index d = 0; d < D; ++d) {
    const double r = std::sqrt(s.square[d]);
    if (!dtheta.empty()) dtheta[0] -= sum[d] * r * s.mean[d];
    constant[d] = static_cast<T>(-theta[0] * sum[d] * r / n);
    // r = (variance + eps)^(-1/2)
    slope[d] = scaled ? static_cast<T>(-weighted[d] * r * s.square[d] / n) : T{};
    mean[d] = static_cast<T>(s.mean[d]);
  }
  for (Index j = 0; j < in.K; ++j) {
    if (!kept_at(in.keep_keys, j)) continue;
    const T* key = in.k[j];
    T* dk = gradient.k[j];
    const T *c = constant.data(), *f = slope.data(), *m = mean.data();
#pragma omp simd
    for (Index d = 0; d < D; ++d) dk[d] += c[d] + f[d] * (key[d] - m[d]);
  }
}

// |x|, also where the squares would leave the range of double.
template <class T>
double careful_norm(const T* x, Index D) {
  double top = 0, sum = 0;
  for (Index d = 0; d < D; ++d) top = std::max(top, std::fabs(static_cast<double>(x[d])));
  if (!(top > 0) || std::isinf(top)) return top;
  for (Index d = 0; d < D; ++d) sum += (static_cast<double>(x[d]) / top) * (static_cast<double>(x[d]) / top);
  return top * std::sqrt(sum);
}

template <class T>
double norm(const T* x, Index D) {
  constexpr T large = std::is_same_v<T, float> ? T(1e30) : T(1e280);
  const T sum = dot(x, x, D);
  return sum > 1 / large && sum < large ? std::sqrt(static_cast<double>(sum)) : careful_norm(x, D);
}

// x/|x|, and 0 at 0.
template <class T>
void normalise(const T* x, T* y, Index D) {
  const double length = norm(x, D);
  const double inverse = 1 / length;
  if (!(length > 0)) {
    std::fill_n(y, D, T{});
  } else if (std::isnormal(static_cast<T>(inverse))) {
    const T factor = static_cast<T>(inverse);
#pragma omp simd
    for (Index d = 0; d < D; ++d) y[d] = x[d] * factor;
  } else {
    for (Index d = 0; d < D; ++d) y[d] = static_cast<T>(static_cast<double>(x[d]) / length);
  }
}

template <class T>
void run(const primal::L2&, std::span<const double>, const TokenRows<const T>& in, const TokenRows<T>& out) {
  for_each_row(out.q, in.N, in.D, {}, [&](Index i) { normalise(in.q[i], out.q[i], in.D); });
  for_each_row(out.k, in.K, in.D, in.keep_keys, [&](Index j) { normalise(in.k[j], out.k[j], in.D); });
}

// dx = (dy - u (u.dy))/|x| with u = x/|x|.
template <class T>
void run_back(const primal::L2&, std::span<const double>, const TokenRows<const T>& in, const TokenRows<T>& gradient,
              std::span<double>) {
  const Index D = in.D;
  const auto pull = [&](Rows<const T> x, Rows<T> dx, Index n, Kept keep) {
    for_each_row(dx, n, D, keep, [&](Index i) {
      const double length = norm(x[i], D), inverse = 1 / length;
      const T* value = x[i];
      T* slope = dx[i];
      if (!(length > 0)) {
        std::fill_n(slope, D, T{});
      } else if (const T factor = static_cast<T>(inverse); std::isnormal(factor)) {
        const T along = dot(value, slope, D) * factor * factor;
#pragma omp simd
        for (Index d = 0; d < D; ++d) slope[d] = (slope[d] - value[d] * along) * factor;
      } else {
        double along = 0;
        for (Index d = 0; d < D; ++d) along += static_cast<double>(value[d]) / length * static_cast<double>(slope[d]);
        for (Index d = 0; d < D; ++d)
          slope[d] =
              static_cast<T>((static_cast<double>(slope[d]) - static_cast<double>(value[d]) / length * along) / length);
      }
    });
  };
  if (gradient.q) pull(in.q, gradient.q, in.N, {});
  if (gradient.k) pull(in.k, gradient.k, in.K, in.keep_keys);
}

template <class T, class Conv>
void run(const Conv& conv, std::span<const double> theta, const TokenRows<const T>& in, const TokenRows<T>& out) {
  convolve(over(conv, in.N, in.D), theta, in.q, out.q, in.N, in.D, in.keep_queries, {});
  convolve(over(conv, in.K, in.D), theta, in.k, out.k, in.K, in.D, in.keep_keys, in.keep_keys);
}

template <class T, class Conv>
void run_back(const Conv& conv, std::span<const double> theta, const TokenRows<const T>& in,
              const TokenRows<T>& gradient, std::span<double> dtheta) {
  if (gradient.q)
    convolve_pullback(over(conv, in.N, in.D), theta, in.q, gradient.q, in.N, in.D, in.keep_queries, {}, dtheta);
  if (gradient.k)
    convolve_pullback(over(conv, in.K, in.D), theta, in.k, gradient.k, in.K, in.D, in.keep_keys, in.keep_keys, dtheta);
}

}  // namespace

bool works_in_place(const primal::Transform& transform) {
  return std::holds_alternative<primal::BatchNorm>(transform) || std::holds_alternative<primal::L2>(transform);
}

template <class T>
void apply(const primal::Transform& transform, std::span<const double> theta, const TokenRows<const T>& in,
           const TokenRows<T>& out) {
  std::visit([&](const auto& part) { run(part, theta, in, out); }, transform);
}

template <class T>
void pullback(const primal::Transform& transform, std::span<const double> theta, const TokenRows<const T>& in,
              const TokenRows<T>& gradient, std::span<double> dtheta) {
  std::visit([&](const auto& part) { run_back(part, theta, in, gradient, dtheta); }, transform);
}

template void apply(const primal::Transform&, std::span<const double>, const TokenRows<const float>&,
                    const TokenRows<float>&);
template void apply(const primal::Transform&, std::span<const double>, const TokenRows<const double>&,
                    const TokenRows<double>&);
template void pullback(const primal::Transform&, std::span<const double>, const TokenRows<const float>&,
                       const TokenRows<float>&, std::span<double>);
template void pullback(const primal::Transform&, std::span<const double>, const TokenRows<const double>&,
                       const TokenRows<double>&, std::span<double>);

}  // namespace saddle::kernels::stages
