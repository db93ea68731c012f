// Limits of AVX2. Nothing here runs before the processor was asked.
#include "limits.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#define SADDLE_AVX2 __attribute__((target("avx2,fma")))

namespace saddle::bench {

namespace {

// Independent chains enough to hide the latency of four or five cycles at two per cycle.
SADDLE_AVX2 double fma_f32(long repeats) {
  __m256 a[12];
  const __m256 x = _mm256_set1_ps(1.000001f), y = _mm256_set1_ps(1e-7f);
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) a[i] = _mm256_set1_ps(static_cast<float>(i));
  for (long r = 0; r < repeats; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) a[i] = _mm256_fmadd_ps(a[i], x, y);
    asm volatile("" : : : "memory");
  }
  __m256 sum = a[0];
#pragma GCC unroll 12
  for (int i = 1; i < 12; ++i) sum = _mm256_add_ps(sum, a[i]);
  volatile float sink = _mm256_cvtss_f32(sum);
  static_cast<void>(sink);
  return 12.0 * 8 * 2 * static_cast<double>(repeats);
}

SADDLE_AVX2 double fma_f64(long repeats) {
  __m256d a[12];
  const __m256d x = _mm256_set1_pd(1.000001), y = _mm256_set1_pd(1e-7);
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) a[i] = _mm256_set1_pd(i);
  for (long r = 0; r < repeats; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) a[i] = _mm256_fmadd_pd(a[i], x, y);
    asm volatile("" : : : "memory");
  }
  __m256d sum = a[0];
#pragma GCC unroll 12
  for (int i = 1; i < 12; ++i) sum = _mm256_add_pd(sum, a[i]);
  volatile double sink = _mm256_cvtsd_f64(sum);
  static_cast<void>(sink);
  return 12.0 * 4 * 2 * static_cast<double>(repeats);
}

// 2^t for t <= 0 by a polynomial in the fraction and an addition to the exponent.
SADDLE_AVX2 double exp_f32(long repeats) {
  constexpr int vectors = 64;
  alignas(32) float in[8 * vectors], out[8 * vectors];
  for (int i = 0; i < 8 * vectors; ++i) in[i] = -0.03f * static_cast<float>(i);
  for (long r = 0; r < repeats; ++r) {
    for (int i = 0; i < 8 * vectors; i += 8) {
      const __m256 t = _mm256_load_ps(in + i);
      const __m256 whole = _mm256_round_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      const __m256 f = _mm256_sub_ps(t, whole);
      __m256 p = _mm256_set1_ps(1.3333558e-3f);
      for (float c : {9.6181291e-3f, 5.5504109e-2f, 2.4022651e-1f, 6.9314718e-1f, 1.0f})
        p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(c));
      const __m256i shift = _mm256_slli_epi32(_mm256_cvtps_epi32(whole), 23);
      _mm256_store_ps(out + i, _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), shift)));
    }
    asm volatile("" : : "r"(out) : "memory");
  }
  return 8.0 * vectors * static_cast<double>(repeats);
}

SADDLE_AVX2 double exp_f64(long repeats) {
  constexpr int vectors = 64;
  alignas(32) double in[4 * vectors], out[4 * vectors];
  for (int i = 0; i < 4 * vectors; ++i) in[i] = -0.03 * i;
  for (long r = 0; r < repeats; ++r) {
    for (int i = 0; i < 4 * vectors; i += 4) {
      const __m256d t = _mm256_load_pd(in + i);
      const __m256d whole = _mm256_round_pd(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      const __m256d f = _mm256_sub_pd(t, whole);
      __m256d p = _mm256_set1_pd(4.45e-10);
      for (double c : {7.05e-9, 1.02e-7, 1.32e-6, 1.53e-5, 1.54e-4, 1.33e-3, 9.62e-3, 5.55e-2, 0.2402, 0.6931, 1.0})
        p = _mm256_fmadd_pd(p, f, _mm256_set1_pd(c));
      const __m256i shift = _mm256_slli_epi64(_mm256_cvtepi32_epi64(_mm256_cvtpd_epi32(whole)), 52);
      _mm256_store_pd(out + i, _mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(p), shift)));
    }
    asm volatile("" : : "r"(out) : "memory");
  }
  return 4.0 * vectors * static_cast<double>(repeats);
}

}  // namespace

LimitLoops avx2_limits() { return {fma_f32, fma_f64, exp_f32, exp_f64}; }

}  // namespace saddle::bench

#undef SADDLE_AVX2
#else

namespace saddle::bench {
LimitLoops avx2_limits() { return {}; }
}  // namespace saddle::bench

#endif
