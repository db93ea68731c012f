// Dropout of elements, one pass.
#if defined(SADDLE_KERNELS_DENSE_DROPOUT_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_DENSE_DROPOUT_INL_HPP_
#undef SADDLE_KERNELS_DENSE_DROPOUT_INL_HPP_
#else
#define SADDLE_KERNELS_DENSE_DROPOUT_INL_HPP_
#endif

#include <algorithm>

#include "saddle/kernels/dense/core.hpp"
#include "saddle/kernels/dense/vector-inl.hpp"
#include "saddle/kernels/simd/philox-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::dense::HWY_NAMESPACE {

// Elements [begin,end), begin a multiple of 512. Word j of block g holds the bits of elements 512 g + 64 j ..
template <class T>
void dropout(const Dropout<T>& drop, Index begin, Index end) {
  const Tag<float> d;
  const Float factor = hn::Set(d, static_cast<float>(drop.factor));
  const auto along = [&](std::uint64_t bits, Index from, Index count) HWY_ATTR {
    along_row(count, [&](auto place) HWY_ATTR {
      const std::uint64_t own = bits >> place.c;
      std::uint8_t bytes[8];
      std::memcpy(bytes, &own, 8);
      const auto kept = hn::LoadMaskBits(d, bytes);
      Float x = hn::IfThenElseZero(kept, hn::Mul(place.get(drop.x + from), factor));
      if (drop.residual) x = hn::Add(x, place.get(drop.residual + from));
      place.put(x, drop.y + from);
    });
  };
  std::uint64_t bits[8];
  for (Index block = begin; block < end; block += 512) {
    simd::keep_bits(drop.seed, 0, 0, drop.threshold, block / 8, 64, 0, 8, bits);
    for (Index j = 0; j < 8; ++j) {
      const Index from = block + 64 * j;
      if (from < end) along(bits[j], from, std::min<Index>(64, end - from));
    }
  }
}

}  // namespace saddle::kernels::dense::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
