// Transforms of whole signals, in place. On the way there a stage reads points that are far apart and leaves transforms
// of neighbours; on the way back the same stages run in reverse. Spectra are thus in an order of their own, which no
// product minds, and nothing is ever permuted. What meets at the last stage (a product, say) is done there in
// registers.
#if defined(SADDLE_KERNELS_CIRCULAR_FFT_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_CIRCULAR_FFT_INL_HPP_
#undef SADDLE_KERNELS_CIRCULAR_FFT_INL_HPP_
#else
#define SADDLE_KERNELS_CIRCULAR_FFT_INL_HPP_
#endif

#include "saddle/kernels/circular/butterfly-inl.hpp"
#include "saddle/kernels/circular/core.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::circular::HWY_NAMESPACE {

// The butterflies of one stage in `blocks` neighbouring transforms that start at x.
template <int R, Way WAY, class T>
HWY_NOINLINE void stage_pass(const Stage& stage, const T* turns, T* x, Index blocks) {
  const Index far = stage.part * width<T>;
  for (Index block = 0; block < blocks; ++block, x += R * far) {
    const T* w = turns;
    for (T* row = x; row < x + far; row += width<T>, w += 2 * (R - 1)) {
      Point<T> p[R];
      SADDLE_UNROLL(8)
      for (int q = 0; q < R; ++q) p[q] = load_point(row + q * far);
      if constexpr (WAY == Way::there) transform<R, WAY>(p);
      SADDLE_UNROLL(8)
      for (int q = 1; q < R; ++q) p[q] = times<WAY>(p[q], same_point(w + 2 * (q - 1)));
      if constexpr (WAY == Way::back) transform<R, WAY>(p);
      SADDLE_UNROLL(8)
      for (int q = 0; q < R; ++q) store_point(p[q], row + q * far);
    }
  }
}

template <Way WAY, class T>
HWY_INLINE void stage_pass(const Plan<T>& plan, const Stage& stage, T* x, Index blocks) {
  const T* const turns = plan.turns.data() + stage.turns;
  with_radix(stage.radix, [&](auto r) HWY_ATTR { stage_pass<r, WAY>(stage, turns, x, blocks); });
}

// Points of a signal that stay in the first-level cache from stage to stage.
template <class T>
inline constexpr Index near_points = 32768 / (width<T> * static_cast<Index>(sizeof(T)));

// `blocks` neighbouring transforms from `level` on, the first point of which is `first`. Meeting says which signals go
// there and come back, and what happens between.
template <class T, class Meeting>
void descend(const Plan<T>& plan, std::size_t level, Index first, Index blocks, const Meeting& meeting) {
  const Stage& stage = plan.stages[level];
  if (blocks > 1 && blocks * stage.length > near_points<T>) {
    for (Index block = 0; block < blocks; ++block) descend(plan, level, first + block * stage.length, 1, meeting);
    return;
  }
  if (level + 1 == plan.stages.size()) {
    with_radix(stage.radix, [&](auto r) HWY_ATTR {
      for (Index k = first; k < first + blocks * r; k += r) meeting.template meet<r>(k);
    });
    return;
  }
  const Index at = first * width<T>;
  for (T* x : meeting.there) stage_pass<Way::there>(plan, stage, x + at, blocks);
  descend(plan, level + 1, first, blocks * stage.radix, meeting);
  for (T* x : meeting.back) stage_pass<Way::back>(plan, stage, x + at, blocks);
}

template <int R, class T>
HWY_INLINE void load_points(const T* x, Index k, Point<T> (&p)[R]) {
  SADDLE_UNROLL(8)
  for (int q = 0; q < R; ++q) p[q] = load_point(x + (k + q) * width<T>);
}
template <int R, class T>
HWY_INLINE void store_points(const Point<T> (&p)[R], T* x, Index k) {
  SADDLE_UNROLL(8)
  for (int q = 0; q < R; ++q) store_point(p[q], x + (k + q) * width<T>);
}

template <Way WAY, class T>
struct OneWay {
  T* x;
  std::span<T*const> there, back;

  template <int R>
  HWY_INLINE void meet(Index k) const {
    Point<T> p[R];
    load_points(x, k, p);
    transform<R, WAY>(p);
    store_points(p, x, k);
  }
};

template <bool PER_LANE, class T>
HWY_INLINE Point<T> spectrum_at(const T* w, Index k) {
  if constexpr (PER_LANE) return load_point(w + k * width<T>);
  return same_point(w + 2 * k);
}

// x w, or x conj(w) where WAY is back.
template <Way WAY, bool PER_LANE, class T>
struct Product {
  T* x;
  const T* w;
  std::span<T*const> there, back;

  template <int R>
  HWY_INLINE void meet(Index k) const {
    Point<T> p[R];
    load_points(x, k, p);
    transform<R, Way::there>(p);
    SADDLE_UNROLL(8)
    for (int q = 0; q < R; ++q) p[q] = times<WAY>(p[q], spectrum_at<PER_LANE>(w, k + q));
    transform<R, Way::back>(p);
    store_points(p, x, k);
  }
};

// s = dy conj(v) for a convolution, its conjugate for a correlation (WAY is back); dy becomes dy conj(w), or dy w.
template <Way WAY, bool PER_LANE, class T>
struct Adjoint {
  T *dy, *v;
  const T* w;
  T* s;
  bool add;
  std::span<T*const> there, back;

  template <int R>
  HWY_INLINE void meet(Index k) const {
    Point<T> p[R], g[R];
    load_points(v, k, p);
    transform<R, Way::there>(p);
    load_points(dy, k, g);
    transform<R, Way::there>(g);
    SADDLE_UNROLL(8)
    for (int q = 0; q < R; ++q)
      keep(WAY == Way::there ? times<Way::back>(g[q], p[q]) : times<Way::back>(p[q], g[q]), k + q);
    if (!w) return;
    constexpr Way other = WAY == Way::there ? Way::back : Way::there;
    SADDLE_UNROLL(8)
    for (int q = 0; q < R; ++q) g[q] = times<other>(g[q], spectrum_at<PER_LANE>(w, k + q));
    transform<R, Way::back>(g);
    store_points(g, dy, k);
  }

  HWY_INLINE void keep(const Point<T>& x, Index k) const {
    if constexpr (PER_LANE) {
      T* const at = s + k * width<T>;
      store_point(add ? plus(x, load_point(at)) : x, at);
    } else {
      const Tag<T> d;
      const T re = hn::GetLane(hn::SumOfLanes(d, x.re)), im = hn::GetLane(hn::SumOfLanes(d, x.im));
      s[2 * k] = add ? s[2 * k] + re : re;
      s[2 * k + 1] = add ? s[2 * k + 1] + im : im;
    }
  }
};

template <class T>
void analyse(const Plan<T>& plan, T* x) {
  T* const signals[] = {x};
  descend(plan, 0, 0, 1, OneWay<Way::there, T>{x, signals, {}});
}

template <class T>
void synthesise(const Plan<T>& plan, T* x) {
  T* const signals[] = {x};
  descend(plan, 0, 0, 1, OneWay<Way::back, T>{x, {}, signals});
}

template <class T>
void convolve(const Plan<T>& plan, T* x, Spectrum<const T> w, Direction direction) {
  T* const signals[] = {x};
  const auto run = [&]<Way WAY, bool PER_LANE>() {
    descend(plan, 0, 0, 1, Product<WAY, PER_LANE, T>{x, w.data, signals, signals});
  };
  if (direction == Direction::convolution)
    w.per_lane ? run.template operator()<Way::there, true>() : run.template operator()<Way::there, false>();
  else
    w.per_lane ? run.template operator()<Way::back, true>() : run.template operator()<Way::back, false>();
}

template <class T>
void gradients(const Plan<T>& plan, T* dy, T* v, Spectrum<const T> w, Direction direction, Spectrum<T> s, bool add) {
  T* const signals[] = {dy, v};
  const std::span<T*const> there(signals), back = w.data ? there.first(1) : there.first(0);
  const auto run = [&]<Way WAY, bool PER_LANE>() {
    descend(plan, 0, 0, 1, Adjoint<WAY, PER_LANE, T>{dy, v, w.data, s.data, add, there, back});
  };
  if (direction == Direction::convolution)
    s.per_lane ? run.template operator()<Way::there, true>() : run.template operator()<Way::there, false>();
  else
    s.per_lane ? run.template operator()<Way::back, true>() : run.template operator()<Way::back, false>();
}

}  // namespace saddle::kernels::circular::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
