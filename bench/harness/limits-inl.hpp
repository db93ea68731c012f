// The loops behind LimitLoops for the target being compiled.
#if defined(SADDLE_BENCH_LIMITS_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_BENCH_LIMITS_INL_HPP_
#undef SADDLE_BENCH_LIMITS_INL_HPP_
#else
#define SADDLE_BENCH_LIMITS_INL_HPP_
#endif

#include <hwy/highway.h>

#include <array>
#include <type_traits>

#include "limits.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;

// Independent chains, enough to hide the latency of four or five cycles at two per cycle; all fit in registers.
constexpr int chains = HWY_TARGET == HWY_AVX3 ? 24 : 12;

template <class T>
double multiply_add(long repeats) {
  const Tag<T> d;
  Vec<T> a[chains];
  const Vec<T> x = hn::Set(d, static_cast<T>(1.000001)), y = hn::Set(d, static_cast<T>(1e-7));
#pragma GCC unroll 24
  for (int i = 0; i < chains; ++i) a[i] = hn::Set(d, static_cast<T>(i));
  for (long r = 0; r < repeats; ++r) {
#pragma GCC unroll 24
    for (int i = 0; i < chains; ++i) a[i] = hn::MulAdd(a[i], x, y);
    asm volatile("" : : : "memory");
  }
  Vec<T> sum = a[0];
#pragma GCC unroll 24
  for (int i = 1; i < chains; ++i) sum = hn::Add(sum, a[i]);
  volatile T sink = hn::GetLane(sum);
  static_cast<void>(sink);
  return 2.0 * chains * static_cast<double>(hn::Lanes(d)) * static_cast<double>(repeats);
}

// t less a whole number.
template <class T>
HWY_INLINE Vec<T> fraction(Vec<T> t) {
#if HWY_TARGET == HWY_AVX3
  constexpr int down = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  if constexpr (std::is_same_v<T, float>)
    return Vec<T>{_mm512_reduce_ps(t.raw, down)};
  else
    return Vec<T>{_mm512_reduce_pd(t.raw, down)};
#else
  return hn::Sub(t, hn::Round(t));
#endif
}

// p 2^(t - fraction of t)
template <class T>
HWY_INLINE Vec<T> raise(Vec<T> p, Vec<T> t) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (std::is_same_v<T, float>)
    return Vec<T>{_mm512_scalef_ps(p.raw, t.raw)};
  else
    return Vec<T>{_mm512_scalef_pd(p.raw, t.raw)};
#else
  // The last bits of t plus this are the whole number.
  constexpr bool wide = std::is_same_v<T, double>;
  const Tag<T> d;
  const hn::RebindToSigned<Tag<T>> di;
  const auto bits = hn::BitCast(di, hn::Add(t, hn::Set(d, static_cast<T>(wide ? 0x1.8p52 : 0x1.8p23))));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft < wide ? 52 : 23 > (bits)));
#endif
}

// 2^f for a fraction f, highest power first.
template <class T>
constexpr std::array<T, 0> series;
template <>
inline constexpr std::array series<float>{1.8775767e-3f, 8.9893397e-3f, 5.5826318e-2f,
                                          2.4015361e-1f, 6.9315308e-1f, 1.0f};
template <>
inline constexpr std::array series<double>{4.45e-10, 7.05e-9, 1.02e-7, 1.32e-6, 1.53e-5, 1.54e-4,
                                           1.33e-3,  9.62e-3, 5.55e-2, 0.2402,  0.6931,  1.0};

// 2^t for t <= 0, in cache.
template <class T>
double exponential(long repeats) {
  const Tag<T> d;
  constexpr long lanes = static_cast<long>(hn::MaxLanes(Tag<T>())), count = 64 * lanes;
  HWY_ALIGN T in[count], out[count];
  for (long i = 0; i < count; ++i) in[i] = static_cast<T>(-0.02) * static_cast<T>(i);
  for (long r = 0; r < repeats; ++r) {
    for (long i = 0; i < count; i += lanes) {
      const Vec<T> t = hn::Load(d, in + i), f = fraction<T>(t);
      Vec<T> p = hn::Set(d, series<T>[0]);
#pragma GCC unroll 16
      for (std::size_t n = 1; n < series<T>.size(); ++n) p = hn::MulAdd(p, f, hn::Set(d, series<T>[n]));
      hn::Store(raise<T>(p, t), d, out + i);
    }
    asm volatile("" : : "r"(out) : "memory");
  }
  return static_cast<double>(count) * static_cast<double>(repeats);
}

inline LimitLoops loops() {
  return {multiply_add<float>, multiply_add<double>, exponential<float>, exponential<double>};
}

}  // namespace saddle::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
