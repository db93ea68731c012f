// The table of core.hpp for one instruction set.
#if defined(SADDLE_KERNELS_DENSE_CORE_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_DENSE_CORE_INL_HPP_
#undef SADDLE_KERNELS_DENSE_CORE_INL_HPP_
#else
#define SADDLE_KERNELS_DENSE_CORE_INL_HPP_
#endif

#include <algorithm>
#include <cmath>

#include "saddle/kernels/dense/core.hpp"
#include "saddle/kernels/dense/dropout-inl.hpp"
#include "saddle/kernels/dense/gelu-inl.hpp"
#include "saddle/kernels/dense/layer_norm-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::dense::HWY_NAMESPACE {

inline constexpr Index panel_width = simd::tile_vectors * lanes<float>;

void multiply(const float* a, Index a_stride, const float* b, Index depth, float* c, Index rows) {
  const Tag<float> d;
  for (Index i = 0; i < rows; i += simd::tile_rows)
    simd::with_rows(std::min<Index>(simd::tile_rows, rows - i), [&](auto n) HWY_ATTR {
      Float sum[n][simd::tile_vectors];
      SADDLE_UNROLL(8)
      for (int r = 0; r < n; ++r) SADDLE_UNROLL(8)
      for (int v = 0; v < simd::tile_vectors; ++v) sum[r][v] = hn::Zero(d);
      simd::multiply<n, simd::tile_vectors, simd::Along::k>(a + i * a_stride, a_stride, b, panel_width, depth, sum);
      SADDLE_UNROLL(8)
      for (int r = 0; r < n; ++r) SADDLE_UNROLL(8)
      for (int v = 0; v < simd::tile_vectors; ++v) store(sum[r][v], c + (i + r) * panel_width + v * lanes<float>);
    });
}

void transpose(const float* from, Index from_stride, Index rows, Index columns, float* to) {
  const auto same = [](auto x, Index) HWY_ATTR { return x; };
  simd::transpose(from, from_stride, rows, columns, to, panel_width, panel_width, same, same);
}

void copy(Rows<const float> from, Index rows, Index columns, float* to, Index to_stride, float* sums) {
  for (Index i = 0; i < rows; ++i)
    along_row(columns, [&](auto place) HWY_ATTR {
      const Float x = place.get(from[i]);
      place.put(x, to + i * to_stride);
      if (sums) place.put(hn::Add(place.get(sums), x), sums);
    });
}

// Lanes by themselves first, four vectors at a time, as one waits for the one before.
inline std::uint64_t digest(const float* from, Index n, std::uint64_t before) {
  const hn::RebindToUnsigned<Tag<float>> d;
  using Word = hn::Vec<decltype(d)>;
  constexpr Index chains = 4, L = lanes<float>;
  const auto mix = [](Word sum, Word x) HWY_ATTR { return hn::Xor(hn::Add(hn::ShiftLeft<5>(sum), sum), x); };
  const auto* bits = reinterpret_cast<const std::uint32_t*>(from);
  Word a = hn::Set(d, 5381u), b = a, c = a, e = a;
  Index i = 0;
  for (; i + chains * L <= n; i += chains * L) {
    a = mix(a, hn::LoadU(d, bits + i));
    b = mix(b, hn::LoadU(d, bits + i + L));
    c = mix(c, hn::LoadU(d, bits + i + 2 * L));
    e = mix(e, hn::LoadU(d, bits + i + 3 * L));
  }
  std::uint32_t sums[static_cast<std::size_t>(chains * L)];
  hn::StoreU(a, d, sums);
  hn::StoreU(b, d, sums + L);
  hn::StoreU(c, d, sums + 2 * L);
  hn::StoreU(e, d, sums + 3 * L);
  constexpr std::uint64_t prime = 1099511628211u;
  for (const std::uint32_t sum : sums) before = (before ^ sum) * prime;
  for (; i < n; ++i) before = (before ^ bits[i]) * prime;
  return before;
}

template <class S, class T>
void convert(const S* from, T* to, Index n) {
  along_row(n, [&](auto place) HWY_ATTR { place.put(place.get(from), to); });
}

void finish(const float* c, Index c_stride, Index rows, Index columns, const Finish<float>& to) {
  for (Index i = 0; i < rows; ++i)
    along_row(columns, [&](auto place) HWY_ATTR {
      Float x = place.get(c + i * c_stride);
      if (to.bias) x = hn::Add(x, place.get(to.bias));
      if (to.residual) x = hn::Add(x, place.get(to.residual[i]));
      if (to.activation == Activation::gelu) {
        const Gelu g = gelu(x);
        if (to.slope) place.put(g.slope, to.slope[i]);
        x = g.value;
      } else if (to.activation == Activation::times_slope) {
        x = hn::Mul(x, place.get(to.slope[i]));
      }
      place.put(x, to.y[i]);
    });
}

template <class T>
void adam(const AdamRule& rule, T* p, const T* g, T* m, T* v, Index count) {
  const Tag<T> d;
  using V = simd::Vector<T>;
  const auto constant = [&](double x) HWY_ATTR { return hn::Set(d, static_cast<T>(x)); };
  const V b1 = constant(rule.beta1), a1 = constant(1 - rule.beta1), b2 = constant(rule.beta2),
          a2 = constant(1 - rule.beta2), eps = constant(rule.eps), decay = constant(rule.decay),
          step = constant(rule.step), scale = constant(rule.scale);
  const auto update = [&](T* pi, const T* gi, T* mi, T* vi) HWY_ATTR {
    const V x = hn::LoadU(d, gi);
    const V mean = hn::MulAdd(b1, hn::LoadU(d, mi), hn::Mul(a1, x));
    const V square = hn::MulAdd(b2, hn::LoadU(d, vi), hn::Mul(a2, hn::Mul(x, x)));
    hn::StoreU(mean, d, mi);
    hn::StoreU(square, d, vi);
    const V direction = rule.adaptive ? hn::Div(mean, hn::MulAdd(scale, hn::Sqrt(square), eps)) : mean;
    hn::StoreU(hn::NegMulAdd(step, direction, hn::Mul(decay, hn::LoadU(d, pi))), d, pi);
  };
  constexpr Index L = lanes<T>;
  Index i = 0;
  for (; i + L <= count; i += L) update(p + i, g + i, m + i, v + i);
  if (i == count) return;
  T piece[4][static_cast<std::size_t>(L)] = {};
  const auto n = static_cast<std::size_t>(count - i);
  std::copy_n(p + i, n, piece[0]);
  std::copy_n(g + i, n, piece[1]);
  std::copy_n(m + i, n, piece[2]);
  std::copy_n(v + i, n, piece[3]);
  update(piece[0], piece[1], piece[2], piece[3]);
  std::copy_n(piece[0], n, p + i);
  std::copy_n(piece[2], n, m + i);
  std::copy_n(piece[3], n, v + i);
}

inline Core table(Isa isa) {
  return {isa,
          panel_width,
          multiply,
          simd::multiply_panel<simd::Along::row, float>,
          transpose,
          copy,
          digest,
          convert<BFloat16, float>,
          convert<float, BFloat16>,
          finish,
          gelu_backward<float>,
          gelu_backward<BFloat16>,
          {layer_norm<float, float>, layer_norm_backward<float, float>},
          {layer_norm<float, BFloat16>, layer_norm_backward<float, BFloat16>},
          {layer_norm<BFloat16, float>, layer_norm_backward<BFloat16, float>},
          {layer_norm<BFloat16, BFloat16>, layer_norm_backward<BFloat16, BFloat16>},
          dropout<float>,
          dropout<BFloat16>,
          adam<float>,
          adam<double>};
}

}  // namespace saddle::kernels::dense::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
