#include "saddle/kernels/stages/feature_rows.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace saddle::kernels::stages {

namespace {

using primal::FeatureMapKind;

// exp(x) for x <= 0 without a call, so that loops over it vectorise: 2^n exp(r) with |r| <= ln(2)/2. Good to 1e-7;
// below -87 it stays at 1e-38.
float exp_of_negative(float x) {
  constexpr float magic = 12582912.0f;  // 1.5 2^23: adding it rounds to a whole number
  const float shifted = x * 1.44269504f + magic;
  const float n = shifted - magic;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const auto exponent = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(magic);
  const float power = std::bit_cast<float>((exponent + 127u) << 23);
  return p * power;
}
double exp_of_negative(double x) { return std::exp(x); }

// elu(x) + 1 = max(x,0) + exp(min(x,0)); low [D] is scratch. One comparison per loop: with two the compiler branches
// and no longer vectorises.
template <class T>
void elu1(const T* x, T* phi, T* low, Index D) {
  constexpr T lowest = std::is_same_v<T, float> ? T(-87) : T(-708);  // exp of less is not a normal number
#pragma omp simd
  for (Index d = 0; d < D; ++d) low[d] = x[d] < lowest ? lowest : x[d];
#pragma omp simd
  for (Index d = 0; d < D; ++d) low[d] = low[d] > 0 ? T{} : low[d];
#pragma omp simd
  for (Index d = 0; d < D; ++d) {
    const T value = x[d];
    phi[d] = (value > 0 ? value : T{}) + exp_of_negative(low[d]);
  }
}

}  // namespace

template <class T>
FeatureRows<T>::FeatureRows(const primal::Linear& kernel, Index D) : kind_(kernel.map), D_(D), F_(kernel.features(D)) {
  if (kind_ == FeatureMapKind::random) map_.emplace(kernel, D);
}

template <class T>
void FeatureRows<T>::map(Rows<const T> x, Rows<T> phi, Index n, Kept keep) const {
  std::vector<double> in(map_ ? D_ : 0), out(map_ ? F_ : 0);
  std::vector<T> low(map_ ? 0 : D_);
  for (Index i = 0; i < n; ++i) {
    const T* value = x[i];
    T* feature = phi[i];
    if (!kept_at(keep, i)) {
      std::fill_n(feature, F_, T{});
    } else if (map_) {
      std::copy_n(value, D_, in.begin());
      map_->map(in.data(), out.data());
      for (Index f = 0; f < F_; ++f) feature[f] = static_cast<T>(out[f]);
    } else if (kind_ == FeatureMapKind::elu1) {
      elu1(value, feature, low.data(), D_);
    } else {
      for (Index d = 0; d < D_; ++d) feature[d] = value[d] > 0 ? value[d] : T{};
    }
  }
}

// elu1' = min(phi,1), relu' = [phi > 0].
template <class T>
void FeatureRows<T>::pullback(Rows<const T> x, Rows<const T> phi, Rows<const T> dphi, Rows<T> dx, Index n,
                              Kept keep) const {
  std::vector<double> in(map_ ? D_ : 0), slope(map_ ? F_ : 0), out(map_ ? D_ : 0);
  for (Index i = 0; i < n; ++i) {
    T* result = dx[i];
    if (!kept_at(keep, i)) {
      std::fill_n(result, D_, T{});
    } else if (map_) {
      std::copy_n(x[i], D_, in.begin());
      std::copy_n(dphi[i], F_, slope.begin());
      std::fill(out.begin(), out.end(), 0.0);
      map_->pullback(in.data(), slope.data(), out.data());
      for (Index d = 0; d < D_; ++d) result[d] = static_cast<T>(out[d]);
    } else if (kind_ == FeatureMapKind::elu1) {
      const T *feature = phi[i], *coming = dphi[i];
#pragma omp simd
      for (Index d = 0; d < D_; ++d) {
        const T slope_here = feature[d] > 1 ? T{1} : feature[d];
        result[d] = coming[d] * slope_here;
      }
    } else {
      const T *feature = phi[i], *coming = dphi[i];
#pragma omp simd
      for (Index d = 0; d < D_; ++d) {
        const T value = coming[d];
        result[d] = feature[d] > 0 ? value : T{};
      }
    }
  }
}

template class FeatureRows<float>;
template class FeatureRows<double>;

}  // namespace saddle::kernels::stages
