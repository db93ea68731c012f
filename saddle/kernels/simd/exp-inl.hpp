// exp and log of vectors, for scores in the base that is cheapest for the type: 2 for float, e for double.
#if defined(SADDLE_KERNELS_SIMD_EXP_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_SIMD_EXP_INL_HPP_
#undef SADDLE_KERNELS_SIMD_EXP_INL_HPP_
#else
#define SADDLE_KERNELS_SIMD_EXP_INL_HPP_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Scores are multiplied by this before exp_score, so that exp(s) = exp_score(s * score_unit<T>).
template <class T>
inline constexpr double score_unit = std::is_same_v<T, float> ? 1.4426950408889634074 : 1.0;

// 2^t for float t: a polynomial of degree 5 on the fraction, exact at whole numbers, relative error 1.5e-7. NaN stays
// NaN, -inf gives 0.
template <class D, class V>
HWY_INLINE V exp2_float(D d, V t) {
#if HWY_TARGET == HWY_AVX3
  V r;
  r.raw = _mm512_reduce_ps(t.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#elif HWY_TARGET == HWY_AVX2
  // The minimum of a number and NaN is the second of them.
  const V top = hn::Min(hn::Set(d, 128.0f), t);
  const V floor = hn::Floor(top), r = hn::Sub(top, floor);
#else
  const V top = hn::Min(hn::Max(t, hn::Set(d, -127.0f)), hn::Set(d, 128.0f));
  const V floor = hn::Floor(top);
  const V r = hn::Sub(top, floor);
#endif
  V p = hn::Set(d, 0x1.e974fap-10f);
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.277856p-7f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.c91ce6p-5f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.ebdb56p-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 0x1.62e4bap-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
#if HWY_TARGET == HWY_AVX3
  p.raw = _mm512_scalef_ps(p.raw, t.raw);
  return p;
#elif HWY_TARGET == HWY_AVX2
  // As below in fewer steps: 128 makes the exponent that of infinity, NaN converts to a number that is shifted out, and
  // whatever became of scores far below is left out at the end.
  const hn::Rebind<int32_t, D> di;
  hn::Vec<decltype(di)> exponent;
  exponent.raw = _mm256_cvttps_epi32(floor.raw);
  const V scaled = hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(exponent)));
  return hn::IfThenZeroElse(hn::Lt(t, hn::Set(d, -126.0f)), scaled);
#else
  // p lies just around [1,2): adding to its exponent multiplies by 2^floor.
  const hn::Rebind<int32_t, D> di;
  const V scaled = hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::ConvertTo(di, floor))));
  const V positive = hn::IfThenZeroElse(hn::Lt(t, hn::Set(d, -126.0f)), scaled);
  return hn::IfThenElse(hn::IsNaN(t), t, hn::IfThenElse(hn::Ge(t, hn::Set(d, 128.0f)), hn::Inf(d), positive));
#endif
}

// exp of a score in units of score_unit.
template <class D, class V>
HWY_INLINE V exp_score(D d, V t) {
  if constexpr (std::is_same_v<hn::TFromD<D>, float>) {
    return exp2_float(d, t);
  } else {
    const V e = hn::IfThenElse(hn::Gt(t, hn::Set(d, 709.7827128933840)), hn::Inf(d), hn::Exp(d, t));
    return hn::IfThenElse(hn::IsNaN(t), t, e);
  }
}

// exp(x) in full precision of the type.
template <class D, class V>
HWY_INLINE V exp_fast(D d, V x) {
  if constexpr (std::is_same_v<hn::TFromD<D>, float>) {
    // x log2(e) in two parts: the rounding of one product would cost |x| units in the last place.
    const V hi = hn::Mul(x, hn::Set(d, 1.44269504088896341f));
    const V n = hn::Floor(hi);
    const V r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x));
    const V inside = exp2_float(d, hn::Mul(r, hn::Set(d, 1.44269504088896341f)));
    const V scale = exp2_float(d, n);
    return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElse(hn::IsInf(scale), scale, hn::Mul(inside, scale)));
  } else {
    return exp_score(d, x);
  }
}

}  // namespace saddle::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
