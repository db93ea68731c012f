// Vectors of floats out of float or bfloat16 memory and back, and sweeps over rows of any width.
#if defined(SADDLE_KERNELS_DENSE_VECTOR_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_DENSE_VECTOR_INL_HPP_
#undef SADDLE_KERNELS_DENSE_VECTOR_INL_HPP_
#else
#define SADDLE_KERNELS_DENSE_VECTOR_INL_HPP_
#endif

#include <hwy/highway.h>

#include <cstring>
#include <type_traits>

#include "saddle/base/dtype.hpp"
#include "saddle/kernels/simd/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::dense::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
namespace simd = saddle::kernels::HWY_NAMESPACE;
using simd::lanes;
using simd::Tag;
using Float = simd::Vector<float>;

HWY_INLINE Float load(const float* from) { return hn::LoadU(Tag<float>(), from); }
HWY_INLINE void store(Float x, float* to) { hn::StoreU(x, Tag<float>(), to); }

HWY_INLINE Float load(const BFloat16* from) {
  const Tag<float> d;
  const hn::RebindToUnsigned<Tag<float>> word;
  const hn::Rebind<std::uint16_t, Tag<float>> half;
  const auto bits = hn::LoadU(half, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(word, bits)));
}
// Rounds to nearest even; NaN stays NaN.
HWY_INLINE void store(Float x, BFloat16* to) {
  const Tag<float> d;
  const hn::RebindToUnsigned<Tag<float>> word;
  const hn::RebindToSigned<Tag<float>> integer;
  const hn::Rebind<std::uint16_t, Tag<float>> half;
  const auto bits = hn::BitCast(word, x);
  const auto even = hn::And(hn::ShiftRight<16>(bits), hn::Set(word, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(even, hn::Set(word, 0x7fff))));
  const auto nan = hn::Set(word, 0x7fc0);
  const auto result = hn::IfThenElse(hn::RebindMask(word, hn::IsNaN(x)), nan, rounded);
  hn::StoreU(hn::DemoteTo(half, hn::BitCast(integer, result)), half, reinterpret_cast<std::uint16_t*>(to));
  (void)d;
}

// The first `count` of a vector; zeros beyond.
template <class T>
HWY_INLINE Float load(const T* from, Index count) {
  T piece[static_cast<std::size_t>(lanes<float>)] = {};
  std::memcpy(piece, from, static_cast<std::size_t>(count) * sizeof(T));
  return load(piece);
}
template <class T>
HWY_INLINE void store(Float x, T* to, Index count) {
  T piece[static_cast<std::size_t>(lanes<float>)];
  store(x, piece);
  std::memcpy(to, piece, static_cast<std::size_t>(count) * sizeof(T));
}

// A place in a row: whole vectors, or the part that is left at its end.
struct Whole {
  Index c;
  template <class T>
  HWY_INLINE Float get(const T* row) const {
    return load(row + c);
  }
  template <class T>
  HWY_INLINE void put(Float x, T* row) const {
    store(x, row + c);
  }
};
struct Part {
  Index c, count;
  template <class T>
  HWY_INLINE Float get(const T* row) const {
    return load(row + c, count);
  }
  template <class T>
  HWY_INLINE void put(Float x, T* row) const {
    store(x, row + c, count);
  }
};

// f(place) for each vector of a row of `columns`.
template <class F>
HWY_INLINE void along_row(Index columns, F&& f) {
  Index c = 0;
  for (; c + lanes<float> <= columns; c += lanes<float>) f(Whole{c});
  if (c < columns) f(Part{c, columns - c});
}

}  // namespace saddle::kernels::dense::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
