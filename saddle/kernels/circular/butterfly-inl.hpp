// Discrete Fourier transforms of a few points, in registers; the lanes of a vector are different signals.
#if defined(SADDLE_KERNELS_CIRCULAR_BUTTERFLY_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_CIRCULAR_BUTTERFLY_INL_HPP_
#undef SADDLE_KERNELS_CIRCULAR_BUTTERFLY_INL_HPP_
#else
#define SADDLE_KERNELS_CIRCULAR_BUTTERFLY_INL_HPP_
#endif

#include "saddle/kernels/simd/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::circular::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace simd = saddle::kernels::HWY_NAMESPACE;
using simd::lanes;
using simd::Tag;
template <class T>
using Vec = simd::Vector<T>;

// Numbers in a row of a signal.
template <class T>
inline constexpr Index width = 2 * lanes<T>;

enum class Way { there, back };

template <class T>
struct Point {
  Vec<T> re, im;
};

template <class T>
HWY_INLINE Point<T> load_point(const T* row) {
  const Tag<T> d;
  return {hn::LoadU(d, row), hn::LoadU(d, row + lanes<T>)};
}
template <class T>
HWY_INLINE void store_point(const Point<T>& x, T* row) {
  const Tag<T> d;
  hn::StoreU(x.re, d, row);
  hn::StoreU(x.im, d, row + lanes<T>);
}
// One complex number for all lanes.
template <class T>
HWY_INLINE Point<T> same_point(const T* number) {
  const Tag<T> d;
  return {hn::Set(d, number[0]), hn::Set(d, number[1])};
}

template <class T>
HWY_INLINE Point<T> plus(const Point<T>& a, const Point<T>& b) {
  return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)};
}
template <class T>
HWY_INLINE Point<T> minus(const Point<T>& a, const Point<T>& b) {
  return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)};
}
// a w, or a conj(w) on the way back.
template <Way WAY, class T>
HWY_INLINE Point<T> times(const Point<T>& a, const Point<T>& w) {
  if constexpr (WAY == Way::there) {
    return {hn::NegMulAdd(a.im, w.im, hn::Mul(a.re, w.re)), hn::MulAdd(a.im, w.re, hn::Mul(a.re, w.im))};
  } else {
    return {hn::MulAdd(a.im, w.im, hn::Mul(a.re, w.re)), hn::NegMulAdd(a.re, w.im, hn::Mul(a.im, w.re))};
  }
}
// a - i b, or a + i b on the way back; and the other one.
template <Way WAY, class T>
HWY_INLINE void turn(const Point<T>& a, const Point<T>& b, Point<T>& first, Point<T>& second) {
  const Point<T> right{hn::Add(a.re, b.im), hn::Sub(a.im, b.re)};
  const Point<T> left{hn::Sub(a.re, b.im), hn::Add(a.im, b.re)};
  first = WAY == Way::there ? right : left;
  second = WAY == Way::there ? left : right;
}

// cos and sin of 2 pi k/R, k from 1 to (R-1)/2.
template <int R>
struct Circle;
template <>
struct Circle<3> {
  static constexpr double cos[] = {-0.5}, sin[] = {0.86602540378443864676};
};
template <>
struct Circle<5> {
  static constexpr double cos[] = {0.30901699437494742410, -0.80901699437494742410},
                          sin[] = {0.95105651629515357212, 0.58778525229247312917};
};
template <>
struct Circle<7> {
  static constexpr double cos[] = {0.62348980185873353053, -0.22252093395631440429, -0.90096886790241912624},
                          sin[] = {0.78183148246802980871, 0.97492791218182360702, 0.43388373911755812048};
};

// X_q = x_0 + sum_r cos(2 pi q r/R) (x_r + x_-r) - i sum_r sin(2 pi q r/R) (x_r - x_-r): points q and -q share both
// sums.
template <int R, Way WAY, class T>
HWY_INLINE void odd_transform(Point<T> (&x)[R]) {
  constexpr int half = (R - 1) / 2;
  const Tag<T> d;
  Point<T> even[half], odd[half];
  SADDLE_UNROLL(4)
  for (int r = 0; r < half; ++r) {
    even[r] = plus(x[r + 1], x[R - 1 - r]);
    odd[r] = minus(x[r + 1], x[R - 1 - r]);
  }
  const Point<T> first = x[0];
  SADDLE_UNROLL(4)
  for (int r = 0; r < half; ++r) x[0] = plus(x[0], even[r]);
  SADDLE_UNROLL(4)
  for (int q = 1; q <= half; ++q) {
    Point<T> a = first, b{hn::Zero(d), hn::Zero(d)};
    SADDLE_UNROLL(4)
    for (int r = 1; r <= half; ++r) {
      const int k = q * r % R, at = k <= half ? k : R - k;
      const Vec<T> c = hn::Set(d, static_cast<T>(Circle<R>::cos[at - 1]));
      const Vec<T> s = hn::Set(d, static_cast<T>(k <= half ? Circle<R>::sin[at - 1] : -Circle<R>::sin[at - 1]));
      a = {hn::MulAdd(c, even[r - 1].re, a.re), hn::MulAdd(c, even[r - 1].im, a.im)};
      b = {hn::MulAdd(s, odd[r - 1].re, b.re), hn::MulAdd(s, odd[r - 1].im, b.im)};
    }
    turn<WAY>(a, b, x[q], x[R - q]);
  }
}

template <int R, Way WAY, class T>
HWY_INLINE void transform(Point<T> (&x)[R]) {
  if constexpr (R == 2) {
    const Point<T> a = x[0];
    x[0] = plus(a, x[1]);
    x[1] = minus(a, x[1]);
  } else if constexpr (R == 4) {
    const Point<T> a = plus(x[0], x[2]), b = minus(x[0], x[2]), c = plus(x[1], x[3]), e = minus(x[1], x[3]);
    x[0] = plus(a, c);
    x[2] = minus(a, c);
    turn<WAY>(b, e, x[1], x[3]);
  } else if constexpr (R > 2) {
    odd_transform<R, WAY>(x);
  }
}

// Calls f(integral_constant<int, radix>).
template <class F>
HWY_INLINE void with_radix(int radix, F&& f) {
  switch (radix) {
    case 1: f(std::integral_constant<int, 1>{}); break;
    case 2: f(std::integral_constant<int, 2>{}); break;
    case 3: f(std::integral_constant<int, 3>{}); break;
    case 4: f(std::integral_constant<int, 4>{}); break;
    case 5: f(std::integral_constant<int, 5>{}); break;
    default: f(std::integral_constant<int, 7>{}); break;
  }
}

}  // namespace saddle::kernels::circular::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
