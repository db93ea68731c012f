// Phi of a chunk of tokens, and its pullback.
#if defined(SADDLE_KERNELS_LINEAR_FEATURES_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_LINEAR_FEATURES_INL_HPP_
#undef SADDLE_KERNELS_LINEAR_FEATURES_INL_HPP_
#else
#define SADDLE_KERNELS_LINEAR_FEATURES_INL_HPP_
#endif

#include "saddle/kernels/linear/core.hpp"
#include "saddle/kernels/linear/product-inl.hpp"
#include "saddle/kernels/simd/exp-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::linear_kernel::HWY_NAMESPACE {

template <class T>
HWY_INLINE Vec<T> exp_of(Vec<T> x) {
  const Tag<T> d;
  return simd::exp_score(d, hn::Mul(x, hn::Set(d, static_cast<T>(simd::template score_unit<T>))));
}

// f(c) for the first element c of each vector of n elements, n a multiple of the lanes.
template <class T, class F>
HWY_INLINE void each(Index n, F&& f) {
  for (Index c = 0; c < n; c += lanes<T>) f(c);
}

// r [lower] = the plain monomials of s x below the highest degree. The last vector of a run reaches into the next runs,
// which are computed later; r has room behind the last.
template <class T>
HWY_INLINE void plain_monomials(const FeaturePlan<T>& plan, const T* x, T* r) {
  const Tag<T> d;
  r[0] = 1;
  if (plan.lower > 1)
    each<T>(padded<T>(plan.D), [&](Index c) HWY_ATTR {
      hn::StoreU(hn::Mul(hn::Set(d, plan.input_scale), hn::LoadU(d, x + c)), d, r + 1 + c);
    });
  for (std::size_t n = 0; n < plan.top_runs; ++n) {
    const auto& run = plan.runs[n];
    const Vec<T> f = hn::Set(d, x[run.variable] * plan.input_scale);
    for (Index i = 0; i < run.count; i += lanes<T>)
      hn::StoreU(hn::Mul(f, hn::LoadU(d, r + run.from + i)), d, r + run.to + i);
  }
}

// phi [F], with room behind it. The highest degree, most of all features, goes straight into phi.
template <class T>
HWY_INLINE void monomial_features(const FeaturePlan<T>& plan, const T* x, T* r, T* phi) {
  const Tag<T> d;
  plain_monomials(plan, x, r);
  for (Index f = 0; f < plan.lower - plan.first; f += lanes<T>)
    hn::StoreU(hn::Mul(hn::LoadU(d, plan.weight() + f), hn::LoadU(d, r + plan.first + f)), d, phi + f);
  for (std::size_t n = plan.top_runs; n < plan.runs.size(); ++n) {
    const auto& run = plan.runs[n];
    const Vec<T> factor = hn::Set(d, x[run.variable] * plan.input_scale);
    const T *const from = r + run.from, *const weight = plan.weight() + (run.to - plan.first);
    T* const to = phi + (run.to - plan.first);
    for (Index i = 0; i < run.count; i += lanes<T>)
      hn::StoreU(hn::Mul(hn::Mul(factor, hn::LoadU(d, weight + i)), hn::LoadU(d, from + i)), d, to + i);
  }
}

// Takes dr[to + i] = g(to + i) back through r_to = s x_d r_from: dr_from += s x_d dr_to, and the sum for dx_d.
// Neighbouring runs add to the same r_from, so these are taken in vectors that lie the same for all runs: a load that
// straddles two recent stores would wait for both.
template <class T, class Gradient>
HWY_INLINE void run_back(const typename FeaturePlan<T>::Run& run, T factor, const T* r, T* dr, T scale, T* dx,
                         Gradient&& gradient) {
  const Tag<T> d;
  constexpr Index L = lanes<T>;
  const Index end = run.from + run.count;
  const Vec<T> f = hn::Set(d, factor);
  Vec<T> sums = hn::Zero(d);
  for (Index b = (run.from - 1) / L * L + 1; b < end; b += L) {
    Vec<T> g = gradient(run.to + (b - run.from));
    if (end - b < L) g = hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(end - b)), g);
    if (b < run.from) g = hn::IfThenZeroElse(hn::FirstN(d, static_cast<std::size_t>(run.from - b)), g);
    sums = hn::MulAdd(g, hn::LoadU(d, r + b), sums);
    hn::StoreU(hn::MulAdd(f, g, hn::LoadU(d, dr + b)), d, dr + b);
  }
  dx[run.variable] += scale * hn::GetLane(hn::SumOfLanes(d, sums));
}

// dx [D] (+)= J^T dphi
template <class T>
HWY_INLINE void monomial_pullback(const FeaturePlan<T>& plan, const T* x, const T* dphi, T* r, T* dr, T* dx, bool add) {
  const Tag<T> d;
  const T s = plan.input_scale;
  plain_monomials(plan, x, r);
  const auto weighted = [&](Index m) HWY_ATTR {
    return hn::Mul(hn::LoadU(d, plan.weight() + (m - plan.first)), hn::LoadU(d, dphi + (m - plan.first)));
  };
  std::fill_n(dr, std::min(plan.first, plan.lower), T{0});
  for (Index m = plan.first; m < plan.lower; m += lanes<T>) hn::StoreU(weighted(m), d, dr + m);
  if (!add) std::fill_n(dx, plan.D, T{0});
  for (std::size_t n = plan.runs.size(); n-- > plan.top_runs;)
    run_back(plan.runs[n], x[plan.runs[n].variable] * s, r, dr, s, dx, weighted);
  for (std::size_t n = plan.top_runs; n-- > 0;)
    run_back(plan.runs[n], x[plan.runs[n].variable] * s, r, dr, s, dx,
             [&](Index m) HWY_ATTR { return hn::LoadU(d, dr + m); });
  if (plan.lower > 1)
    for (Index c = 0; c < plan.D; ++c) dx[c] += s * dr[1 + c];
}

template <class T>
HWY_INLINE void random_features(const FeaturePlan<T>& plan, Rows<const T> x, Index count, T* phi) {
  const Tag<T> d;
  const Index F = padded<T>(plan.F), D = padded<T>(plan.D);
  product<Along::k>(Product<T>{count, F, plan.D, x.data, x.stride, plan.columns.data(), F, phi, F});
  for (Index t = 0; t < count; ++t) {
    const T half = plan.input_scale * plan.input_scale * inner(x[t], x[t], D) / 2;
    const Vec<T> offset = hn::Set(d, plan.offset - half);
    each<T>(F, [&](Index f) HWY_ATTR {
      T* const at = phi + t * F + f;
      hn::StoreU(exp_of<T>(hn::Add(hn::LoadU(d, at), offset)), d, at);
    });
  }
}

// x [count,D] -> phi [count, padded(F)], 0 beyond F, with room behind it. Rows of x are padded.
template <class T>
HWY_NOINLINE void map_features(const FeaturePlan<T>& plan, Rows<const T> x, Index count, T* phi, Workspace<T>& work) {
  using Kind = typename FeaturePlan<T>::Kind;
  const Tag<T> d;
  const Vec<T> zero = hn::Zero(d), one = hn::Set(d, T{1});
  const Index F = padded<T>(plan.F);
  switch (plan.kind) {
    case Kind::identity:
      for (Index t = 0; t < count; ++t) std::copy_n(x[t], plan.F, phi + t * F);
      break;
    case Kind::elu1:
      for (Index t = 0; t < count; ++t)
        each<T>(F, [&](Index f) HWY_ATTR {
          const Vec<T> a = hn::LoadU(d, x[t] + f);
          hn::StoreU(hn::IfThenElse(hn::Gt(a, zero), hn::Add(a, one), exp_of<T>(a)), d, phi + t * F + f);
        });
      break;
    case Kind::relu:
      for (Index t = 0; t < count; ++t)
        each<T>(F, [&](Index f) HWY_ATTR {
          const Vec<T> a = hn::LoadU(d, x[t] + f);
          hn::StoreU(hn::IfThenElseZero(hn::Gt(a, zero), a), d, phi + t * F + f);
        });
      break;
    case Kind::monomial:
      for (Index t = 0; t < count; ++t) monomial_features(plan, x[t], work.monomials, phi + t * F);
      break;
    case Kind::random: random_features(plan, x, count, phi); break;
  }
  if (plan.F < F)
    for (Index t = 0; t < count; ++t) std::fill(phi + t * F + plan.F, phi + (t + 1) * F, T{0});
}

// dx [count,D] (+)= J(x)^T (dphi + factor shift) with dphi [count, padded(F)], factor [count] and shift [padded(F)].
// phi holds the features of x. dphi is overwritten.
template <class T>
HWY_NOINLINE void pull_back(const FeaturePlan<T>& plan, Rows<const T> x, const T* phi, T* dphi, const T* factor,
                            const T* shift, Index count, Rows<T> dx, bool add, Workspace<T>& work) {
  using Kind = typename FeaturePlan<T>::Kind;
  const Tag<T> d;
  const Index F = padded<T>(plan.F), D = padded<T>(plan.D);
  // dx = slope(x, phi) (dphi + factor shift), feature by feature
  const auto elementwise = [&](auto&& slope) HWY_ATTR {
    for (Index t = 0; t < count; ++t) {
      const Vec<T> f = hn::Set(d, factor[t]);
      each<T>(D, [&](Index c) HWY_ATTR {
        const Vec<T> g = hn::MulAdd(f, hn::LoadU(d, shift + c), hn::LoadU(d, dphi + t * F + c));
        const Vec<T> r = slope(hn::LoadU(d, x[t] + c), phi + t * F + c, g);
        hn::StoreU(add ? hn::Add(hn::LoadU(d, dx[t] + c), r) : r, d, dx[t] + c);
      });
    }
  };
  const Vec<T> zero = hn::Zero(d);
  switch (plan.kind) {
    case Kind::identity: elementwise([&](Vec<T>, const T*, Vec<T> g) HWY_ATTR { return g; }); return;
    case Kind::elu1:
      elementwise([&](Vec<T> a, const T* p, Vec<T> g)
                      HWY_ATTR { return hn::IfThenElse(hn::Gt(a, zero), g, hn::Mul(g, hn::LoadU(d, p))); });
      return;
    case Kind::relu:
      elementwise([&](Vec<T> a, const T*, Vec<T> g) HWY_ATTR { return hn::IfThenElseZero(hn::Gt(a, zero), g); });
      return;
    case Kind::monomial:
      for (Index t = 0; t < count; ++t) {
        add_scaled(factor[t], shift, F, dphi + t * F);
        monomial_pullback(plan, x[t], dphi + t * F, work.monomials, work.dmonomials, dx[t], add);
      }
      return;
    case Kind::random:
      // dx = sum_r a_r (s w_r - s^2 x) with a_r = dphi_r phi_r
      for (Index t = 0; t < count; ++t) {
        const Vec<T> f = hn::Set(d, factor[t]);
        Vec<T> sum = zero;
        each<T>(F, [&](Index c) HWY_ATTR {
          T* const at = dphi + t * F + c;
          const Vec<T> g = hn::MulAdd(f, hn::LoadU(d, shift + c), hn::LoadU(d, at));
          const Vec<T> a = hn::Mul(g, hn::LoadU(d, phi + t * F + c));
          sum = hn::Add(sum, a);
          hn::StoreU(a, d, at);
        });
        work.sums[t] = -plan.input_scale * plan.input_scale * hn::GetLane(hn::SumOfLanes(d, sum));
      }
      product<Along::k>(Product<T>{count, D, plan.F, dphi, F, plan.rows.data(), D, dx.data, dx.stride, add});
      for (Index t = 0; t < count; ++t) add_scaled(work.sums[t], x[t], D, dx[t]);
      return;
  }
}

}  // namespace saddle::kernels::linear_kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
