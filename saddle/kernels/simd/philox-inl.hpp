// The keep bits of dropout for a tile of 64 queries by keys, as primal/dropout.hpp defines them.
#if defined(SADDLE_KERNELS_SIMD_PHILOX_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_SIMD_PHILOX_INL_HPP_
#undef SADDLE_KERNELS_SIMD_PHILOX_INL_HPP_
#else
#define SADDLE_KERNELS_SIMD_PHILOX_INL_HPP_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "saddle/base/random.hpp"
#include "saddle/base/view.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

inline void keep_bits(std::uint64_t seed, std::uint32_t offset, std::uint32_t head, std::uint32_t threshold, Index i0,
                      Index j0, Index count, std::uint64_t* bits) {
  for (Index c = 0; c < count; ++c) {
    const Index j = j0 + c;
    bits[c] = 0;
    for (Index b = 0; b < 64; ++b) {
      const auto words = philox({static_cast<std::uint32_t>(i0 + b), static_cast<std::uint32_t>(j / 8), head, offset},
                                {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
      const std::uint32_t own = words[j % 8 / 2] >> (j % 2 * 16) & 0xffffu;
      bits[c] |= std::uint64_t{own >= threshold} << b;
    }
  }
}

#else

using Words = hn::ScalableTag<std::uint32_t>;
using WordVector = hn::Vec<Words>;

// Upper and lower halves of the 32 x 32 bit products.
HWY_INLINE void multiply_words(WordVector x, WordVector y, WordVector& upper, WordVector& lower) {
  const Words d;
  const hn::RepartitionToWide<Words> dw;
  const auto even = hn::MulEven(x, y);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(dw, x))), y);
  const auto odd_mask = hn::Set(dw, 0xffffffff00000000u);
  upper = hn::BitCast(d, hn::Or(hn::ShiftRight<32>(even), hn::And(odd, odd_mask)));
  lower = hn::BitCast(d, hn::Or(hn::AndNot(odd_mask, even), hn::ShiftLeft<32>(odd)));
}

// bits [count]: bit b of bits[c] says that the weight of query i0 + b and key j0 + c stays. head: b H + h.
inline HWY_NOINLINE void keep_bits(std::uint64_t seed, std::uint32_t offset, std::uint32_t head,
                                   std::uint32_t threshold, Index i0, Index j0, Index count, std::uint64_t* bits) {
  const Words d;
  constexpr Index L = HWY_LANES(std::uint32_t);
  for (Index c = 0; c < count; ++c) bits[c] = 0;
  for (Index group = j0 / 8; group * 8 < j0 + count; ++group)
    for (Index b = 0; b < 64; b += L) {
      WordVector c0 = hn::Iota(d, static_cast<std::uint32_t>(i0 + b));
      WordVector c1 = hn::Set(d, static_cast<std::uint32_t>(group)), c2 = hn::Set(d, head), c3 = hn::Set(d, offset);
      std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
      for (int round = 0; round < 10; ++round) {
        WordVector ah, al, bh, bl;
        multiply_words(c0, hn::Set(d, 0xD2511F53u), ah, al);
        multiply_words(c2, hn::Set(d, 0xCD9E8D57u), bh, bl);
        c0 = hn::Xor(hn::Xor(bh, c1), hn::Set(d, k0));
        c1 = bl;
        c2 = hn::Xor(hn::Xor(ah, c3), hn::Set(d, k1));
        c3 = al;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
      }
      const WordVector words[4] = {c0, c1, c2, c3};
      const WordVector limit = hn::Set(d, threshold);
      for (Index key = 0; key < 8; ++key) {
        const Index column = group * 8 + key - j0;
        if (column < 0 || column >= count) continue;
        const WordVector half =
            key % 2 == 0 ? hn::And(words[key / 2], hn::Set(d, 0xffffu)) : hn::ShiftRight<16>(words[key / 2]);
        std::uint8_t packed[8] = {};
        hn::StoreMaskBits(d, hn::Not(hn::Lt(half, limit)), packed);
        std::uint64_t own = 0;
        for (Index byte = 0; byte < (L + 7) / 8; ++byte) own |= std::uint64_t{packed[byte]} << (8 * byte);
        bits[column] |= own << b;
      }
    }
}

#endif

}  // namespace saddle::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
