// exp of scores as bfloat16 weights. Included inside the target options of the files that use it.
#pragma once

#include "saddle/kernels/amx/tile-inl.hpp"

namespace saddle::kernels {
namespace {

// A value the compiler cannot recompute, so that it stays in its register.
inline __m512i pinned(__m512i x) {
  asm("" : "+v"(x));
  return x;
}
inline __m512 pinned(__m512 x) {
  asm("" : "+v"(x));
  return x;
}

// exp of two rows of scores as pairs of bfloat16, in 16-bit integers: t = c s in units of 1/128, plus 127, is already
// exponent and mantissa of 2^t but for 2^f - (1 + f) = -f (1 - f) w(f) with w nearly linear.
class BoundedExp {
 public:
  explicit BoundedExp(float c)
      : scale_(pinned(_mm512_set1_ps(128 * c))),
        // Added to a float below 2^22, this leaves its nearest integer in the lower bits.
        offset_(pinned(_mm512_set1_ps(127 * 128 + 12582912.0f))),
        fraction_(pinned(_mm512_set1_epi16(127))),
        one_(pinned(_mm512_set1_epi16(128))),
        weight_(pinned(_mm512_set1_epi16(80))) {}

  __m512i operator()(const float* s0, const float* s1, Index) const {
    const __m512i a = _mm512_castps_si512(_mm512_fmadd_ps(_mm512_load_ps(s0), scale_, offset_));
    const __m512i b = _mm512_castps_si512(_mm512_fmadd_ps(_mm512_load_ps(s1), scale_, offset_));
    const __m512i code = _mm512_mask_mov_epi16(a, 0xAAAAAAAA, _mm512_slli_epi32(b, 16));
    const __m512i f = _mm512_and_si512(code, fraction_);
    const __m512i g = _mm512_mullo_epi16(f, _mm512_sub_epi16(one_, f));
    const __m512i w = _mm512_add_epi16(_mm512_srli_epi16(f, 3), weight_);
    return _mm512_sub_epi16(code, _mm512_mulhrs_epi16(g, w));
  }

 private:
  __m512 scale_, offset_;
  __m512i fraction_, one_, weight_;
};

// The same in float, for scores of any size, relative to a reference per query. It is taken off the score, not off the
// product: at the largest score nothing is left, however large that is.
class AnyExp {
 public:
  AnyExp(float c, const float* reference)
      : scale_(_mm512_set1_ps(c)),
        reference_{_mm512_load_ps(reference), _mm512_load_ps(reference + 16)},
        order_(pinned(pair_order())) {}

  __m512i operator()(const float* s0, const float* s1, Index j) const {
    const __m512 t0 = _mm512_mul_ps(_mm512_sub_ps(_mm512_load_ps(s0), reference_[j]), scale_);
    const __m512 t1 = _mm512_mul_ps(_mm512_sub_ps(_mm512_load_ps(s1), reference_[j]), scale_);
    return _mm512_permutexvar_epi16(order_, round_to_bf16(exp2_coarse(t0), exp2_coarse(t1)));
  }

 private:
  __m512 scale_;
  __m512 reference_[2];
  __m512i order_;
};

}  // namespace
}  // namespace saddle::kernels
