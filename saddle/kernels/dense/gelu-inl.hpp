// gelu(x) = x Phi(x) with the exact normal distribution, and its derivative Phi(x) + x phi(x).
#if defined(SADDLE_KERNELS_DENSE_GELU_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_DENSE_GELU_INL_HPP_
#undef SADDLE_KERNELS_DENSE_GELU_INL_HPP_
#else
#define SADDLE_KERNELS_DENSE_GELU_INL_HPP_
#endif

#include "saddle/kernels/dense/vector-inl.hpp"
#include "saddle/kernels/simd/exp-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::dense::HWY_NAMESPACE {

inline constexpr float far = 12;

struct Normal {
  Float cdf;
  Float bell;  // exp(-x^2/2)
};

// The lower tail is bell(z) t P(t) with t = 1/(1 + 0.3 z), P fitted to a relative error of 8e-8: no cancellation, and
// one exponential serves both. Beyond +-far nothing changes, so that nothing becomes denormal, which is slow.
HWY_INLINE Normal normal(Float x) {
  const Tag<float> d;
  const Float one = hn::Set(d, 1.0f);
  const Float z = hn::Min(hn::Abs(x), hn::Set(d, far));
  const Float denominator = hn::MulAdd(z, hn::Set(d, 0.3f), one);
  Float t = hn::ApproximateReciprocal(denominator);
  t = hn::Mul(t, hn::NegMulAdd(denominator, t, hn::Set(d, 2.0f)));
  const Float bell = simd::exp2_float(d, hn::Mul(hn::Mul(z, z), hn::Set(d, -0.5f * 1.44269504088896341f)));
  constexpr float coefficients[] = {-0.16167946994194624f, 0.21413328855311825f, -0.06092037631285954f,
                                    0.13244041513178478f,  0.09871915630457714f, 0.12094908065158655f,
                                    0.11961627291231836f};
  Float p = hn::Set(d, 0.0367415919192284f);
  SADDLE_UNROLL(8)
  for (const float c : coefficients) p = hn::MulAdd(p, t, hn::Set(d, c));
  const Float tail = hn::Mul(hn::Mul(p, t), bell);
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail)), bell};
}

struct Gelu {
  Float value, slope;
};

HWY_INLINE Gelu gelu(Float x) {
  const Tag<float> d;
  const Normal n = normal(x);
  const Float near = hn::IfThenZeroElse(hn::Gt(hn::Abs(x), hn::Set(d, far)), x);
  return {hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -far)), hn::Mul(x, n.cdf)),
          hn::MulAdd(hn::Mul(near, hn::Set(d, 0.39894228040143268f)), n.bell, n.cdf)};
}

// For results that become bfloat16: Phi and the slope as 1/2 + x P(x^2) on [-4,4], beyond it 0 and 1. The value is off
// by at most 1.1e-4 |x|, the slope by 5.2e-4; rounding to bfloat16 alone by up to 3.9e-3 of what it rounds.
HWY_INLINE Gelu coarse_gelu(Float x) {
  const Tag<float> d;
  // NaN is the second argument of both, and stays.
  const Float low = hn::Max(hn::Set(d, -4.0f), x), z = hn::Min(hn::Set(d, 4.0f), low), u = hn::Mul(z, z);
  constexpr float of_cdf[] = {-1.86397187e-06f, 5.36872722e-05f, -0.000874684774f,
                              0.00909541082f,   -0.0653583333f,  0.398512721f};
  constexpr float of_slope[] = {1.52906921e-06f, -4.6301735e-05f, 0.000787948258f, -0.00838434417f,
                                0.058457423f,    -0.266287416f,   0.798969746f};
  Float p = hn::Set(d, 2.75714065e-08f), s = hn::Set(d, -2.15240235e-08f);
  SADDLE_UNROLL(8)
  for (const float c : of_cdf) p = hn::MulAdd(p, u, hn::Set(d, c));
  SADDLE_UNROLL(8)
  for (const float c : of_slope) s = hn::MulAdd(s, u, hn::Set(d, c));
  const Float half = hn::Set(d, 0.5f);
  return {hn::Mul(low, hn::MulAdd(p, z, half)), hn::MulAdd(s, z, half)};
}

// dpre = dy slope, and sums [columns] = its columns as stored.
template <class T>
void gelu_backward(Rows<const T> dy, Rows<const T> slope, Rows<T> dpre, Index begin, Index end, Index columns,
                   float* sums) {
  if (sums) std::fill_n(sums, columns, 0.0f);
  for (Index i = begin; i < end; ++i)
    along_row(columns, [&](auto place) HWY_ATTR {
      place.put(hn::Mul(place.get(dy[i]), place.get(slope[i])), dpre[i]);
      if (sums) place.put(hn::Add(place.get(sums), place.get(dpre[i])), sums);
    });
}

}  // namespace saddle::kernels::dense::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
