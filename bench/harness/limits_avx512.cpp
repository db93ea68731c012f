// Limits of AVX-512. Nothing here runs before the processor was asked.
#include "limits.hpp"

#if defined(__x86_64__)
// Undefined vectors in these headers look uninitialised to GCC 12.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#define SADDLE_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

namespace saddle::bench {

namespace {

SADDLE_AVX512 double fma_f32(long repeats) {
  __m512 a[24];
  const __m512 x = _mm512_set1_ps(1.000001f), y = _mm512_set1_ps(1e-7f);
#pragma GCC unroll 24
  for (int i = 0; i < 24; ++i) a[i] = _mm512_set1_ps(static_cast<float>(i));
  for (long r = 0; r < repeats; ++r) {
#pragma GCC unroll 24
    for (int i = 0; i < 24; ++i) a[i] = _mm512_fmadd_ps(a[i], x, y);
    asm volatile("" : : : "memory");
  }
  __m512 sum = a[0];
#pragma GCC unroll 24
  for (int i = 1; i < 24; ++i) sum = _mm512_add_ps(sum, a[i]);
  volatile float sink = _mm512_cvtss_f32(sum);
  static_cast<void>(sink);
  return 24.0 * 16 * 2 * static_cast<double>(repeats);
}

SADDLE_AVX512 double fma_f64(long repeats) {
  __m512d a[24];
  const __m512d x = _mm512_set1_pd(1.000001), y = _mm512_set1_pd(1e-7);
#pragma GCC unroll 24
  for (int i = 0; i < 24; ++i) a[i] = _mm512_set1_pd(i);
  for (long r = 0; r < repeats; ++r) {
#pragma GCC unroll 24
    for (int i = 0; i < 24; ++i) a[i] = _mm512_fmadd_pd(a[i], x, y);
    asm volatile("" : : : "memory");
  }
  __m512d sum = a[0];
#pragma GCC unroll 24
  for (int i = 1; i < 24; ++i) sum = _mm512_add_pd(sum, a[i]);
  volatile double sink = _mm512_cvtsd_f64(sum);
  static_cast<void>(sink);
  return 24.0 * 8 * 2 * static_cast<double>(repeats);
}

// 2^t for t <= 0: the fraction by vreduceps, a polynomial, the exponent by vscalefps.
SADDLE_AVX512 double exp_f32(long repeats) {
  constexpr int vectors = 64;
  alignas(64) float in[16 * vectors], out[16 * vectors];
  for (int i = 0; i < 16 * vectors; ++i) in[i] = -0.02f * static_cast<float>(i);
  for (long r = 0; r < repeats; ++r) {
    for (int i = 0; i < 16 * vectors; i += 16) {
      const __m512 t = _mm512_load_ps(in + i);
      const __m512 f = _mm512_reduce_ps(t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
      __m512 p = _mm512_set1_ps(1.8775767e-3f);
      for (float c : {8.9893397e-3f, 5.5826318e-2f, 2.4015361e-1f, 6.9315308e-1f, 1.0f})
        p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(c));
      _mm512_store_ps(out + i, _mm512_scalef_ps(p, t));
    }
    asm volatile("" : : "r"(out) : "memory");
  }
  return 16.0 * vectors * static_cast<double>(repeats);
}

SADDLE_AVX512 double exp_f64(long repeats) {
  constexpr int vectors = 64;
  alignas(64) double in[8 * vectors], out[8 * vectors];
  for (int i = 0; i < 8 * vectors; ++i) in[i] = -0.02 * i;
  for (long r = 0; r < repeats; ++r) {
    for (int i = 0; i < 8 * vectors; i += 8) {
      const __m512d t = _mm512_load_pd(in + i);
      const __m512d f = _mm512_reduce_pd(t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
      __m512d p = _mm512_set1_pd(4.45e-10);
      for (double c : {7.05e-9, 1.02e-7, 1.32e-6, 1.53e-5, 1.54e-4, 1.33e-3, 9.62e-3, 5.55e-2, 0.2402, 0.6931, 1.0})
        p = _mm512_fmadd_pd(p, f, _mm512_set1_pd(c));
      _mm512_store_pd(out + i, _mm512_scalef_pd(p, t));
    }
    asm volatile("" : : "r"(out) : "memory");
  }
  return 8.0 * vectors * static_cast<double>(repeats);
}

}  // namespace

LimitLoops avx512_limits() { return {fma_f32, fma_f64, exp_f32, exp_f64}; }

}  // namespace saddle::bench

#undef SADDLE_AVX512
#pragma GCC diagnostic pop
#else

namespace saddle::bench {
LimitLoops avx512_limits() { return {}; }
}  // namespace saddle::bench

#endif
