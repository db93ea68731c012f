// Layer normalisation of rows, forward and backward.
#if defined(SADDLE_KERNELS_DENSE_LAYER_NORM_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_DENSE_LAYER_NORM_INL_HPP_
#undef SADDLE_KERNELS_DENSE_LAYER_NORM_INL_HPP_
#else
#define SADDLE_KERNELS_DENSE_LAYER_NORM_INL_HPP_
#endif

#include "saddle/kernels/dense/vector-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::dense::HWY_NAMESPACE {

HWY_INLINE float sum_lanes(Float x) { return hn::GetLane(hn::SumOfLanes(Tag<float>(), x)); }

// x - shift, zero where the row has ended.
HWY_INLINE Float centred(Whole place, Float x, Float shift) {
  (void)place;
  return hn::Sub(x, shift);
}
HWY_INLINE Float centred(Part place, Float x, Float shift) {
  const Tag<float> d;
  return hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(place.count)), hn::Sub(x, shift));
}

template <class X, class Y>
void layer_norm(const LayerNorm<X, Y>& norm, Index begin, Index end) {
  const Tag<float> d;
  const Float one = hn::Set(d, 1.0f), zero = hn::Zero(d);
  const double C = static_cast<double>(norm.C);
  for (Index i = begin; i < end; ++i) {
    const X* x = norm.x[i];
    Y* y = norm.y[i];
    Float sum = zero, squares = zero;
    along_row(norm.C, [&](auto place) HWY_ATTR { sum = hn::Add(sum, place.get(x)); });
    const float mean = static_cast<float>(sum_lanes(sum) / C);
    const Float shift = hn::Set(d, mean);
    along_row(norm.C, [&](auto place) HWY_ATTR {
      const Float e = centred(place, place.get(x), shift);
      squares = hn::MulAdd(e, e, squares);
    });
    const float rstd = static_cast<float>(1 / std::sqrt(sum_lanes(squares) / C + norm.eps));
    const Float scale = hn::Set(d, rstd);
    along_row(norm.C, [&](auto place) HWY_ATTR {
      const Float e = hn::Mul(hn::Sub(place.get(x), shift), scale);
      place.put(hn::MulAdd(e, norm.gamma ? place.get(norm.gamma) : one, norm.beta ? place.get(norm.beta) : zero), y);
    });
    norm.mean[i] = mean;
    norm.rstd[i] = rstd;
  }
}

// With e = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - e mean(g e)).
template <class X, class Y>
void layer_norm_backward(const LayerNormBackward<X, Y>& norm, Index begin, Index end, float* sums) {
  const Tag<float> d;
  const Float one = hn::Set(d, 1.0f);
  const float C = static_cast<float>(norm.C);
  float *dgamma = sums, *dbeta = sums + norm.C;
  std::fill_n(sums, 2 * norm.C, 0.0f);
  for (Index i = begin; i < end; ++i) {
    const X* x = norm.x[i];
    const Y* dy = norm.dy[i];
    const Float shift = hn::Set(d, norm.mean[i]), scale = hn::Set(d, norm.rstd[i]);
    Float sum = hn::Zero(d), product = hn::Zero(d);
    along_row(norm.C, [&](auto place) HWY_ATTR {
      const Float dyi = place.get(dy), e = hn::Mul(hn::Sub(place.get(x), shift), scale);
      const Float g = norm.gamma ? hn::Mul(dyi, place.get(norm.gamma)) : dyi;
      sum = hn::Add(sum, g);
      product = hn::MulAdd(g, e, product);
      place.put(hn::MulAdd(dyi, e, place.get(dgamma)), dgamma);
      place.put(hn::Add(dyi, place.get(dbeta)), dbeta);
    });
    if (!norm.dx) continue;
    const Float mean = hn::Set(d, sum_lanes(sum) / C), slope = hn::Set(d, sum_lanes(product) / C);
    along_row(norm.C, [&](auto place) HWY_ATTR {
      const Float e = hn::Mul(hn::Sub(place.get(x), shift), scale);
      const Float g = hn::Mul(place.get(dy), norm.gamma ? place.get(norm.gamma) : one);
      Float dx = hn::Mul(scale, hn::NegMulAdd(e, slope, hn::Sub(g, mean)));
      if (norm.added) dx = hn::Add(dx, place.get(norm.added[i]));
      place.put(dx, norm.dx[i]);
    });
  }
}

}  // namespace saddle::kernels::dense::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
