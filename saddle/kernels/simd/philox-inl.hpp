// The keep bits of dropout for a tile of up to 64 queries by keys, as primal/dropout.hpp defines them.
#if defined(SADDLE_KERNELS_SIMD_PHILOX_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef SADDLE_KERNELS_SIMD_PHILOX_INL_HPP_
#undef SADDLE_KERNELS_SIMD_PHILOX_INL_HPP_
#else
#define SADDLE_KERNELS_SIMD_PHILOX_INL_HPP_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "saddle/base/random.hpp"
#include "saddle/base/view.hpp"
#include "saddle/kernels/simd/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

inline void keep_bits(std::uint64_t seed, std::uint32_t offset, std::uint32_t head, std::uint32_t threshold, Index i0,
                      Index queries, Index j0, Index count, std::uint64_t* bits) {
  for (Index c = 0; c < count; ++c) {
    const Index j = j0 + c;
    bits[c] = 0;
    for (Index b = 0; b < queries; ++b) {
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

// Four counters of Philox in the even lanes of four vectors; odd lanes hold what is left of products and never count.
struct Philox {
  WordVector c0, c1, c2, c3;

  HWY_INLINE void round(std::uint32_t k0, std::uint32_t k1) {
    const Words d;
    const auto product = [&](WordVector x, std::uint32_t y) HWY_ATTR { return hn::MulEven(x, hn::Set(d, y)); };
    const auto upper = [&](auto x) HWY_ATTR { return hn::BitCast(d, hn::ShiftRight<32>(x)); };
    const auto a = product(c0, 0xD2511F53u), b = product(c2, 0xCD9E8D57u);
    c0 = hn::Xor3(upper(b), c1, hn::Set(d, k0));
    c1 = hn::BitCast(d, b);
    c2 = hn::Xor3(upper(a), c3, hn::Set(d, k1));
    c3 = hn::BitCast(d, a);
  }
};

HWY_INLINE WordVector odd_to_even(WordVector x) {
  const hn::RepartitionToWide<Words> wide;
  return hn::BitCast(Words(), hn::ShiftRight<32>(hn::BitCast(wide, x)));
}
// The even lanes of both, in turn.
HWY_INLINE WordVector both(WordVector even, WordVector odd) {
  const hn::RepartitionToWide<Words> wide;
  return hn::OddEven(hn::BitCast(Words(), hn::ShiftLeft<32>(hn::BitCast(wide, odd))), even);
}

// bits [count]: bit b < queries of bits[c] says that the weight of query i0 + b and key j0 + c stays. head: b H + h.
inline HWY_NOINLINE void keep_bits(std::uint64_t seed, std::uint32_t offset, std::uint32_t head,
                                   std::uint32_t threshold, Index i0, Index queries, Index j0, Index count,
                                   std::uint64_t* bits) {
  const Words d;
  constexpr Index L = HWY_LANES(std::uint32_t);
  constexpr int together = 4;  // chains of rounds, which hide each other's latency
  std::uint32_t keys[10][2] = {{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  for (int r = 1; r < 10; ++r) {
    keys[r][0] = keys[r - 1][0] + 0x9E3779B9u;
    keys[r][1] = keys[r - 1][1] + 0xBB67AE85u;
  }
  const WordVector c2 = hn::Set(d, head), c3 = hn::Set(d, offset);
  const hn::RebindToSigned<Words> signed_words;  // 16 bits are small enough, and AVX2 compares nothing else
  const auto dropped = hn::Set(signed_words, static_cast<std::int32_t>(threshold) - 1);
  std::uint64_t own[8] = {};  // of the keys of a group; x86 has the first queries in the first bytes
  for (Index group = j0 / 8; group * 8 < j0 + count; ++group) {
    const WordVector c1 = hn::Set(d, static_cast<std::uint32_t>(group));
    for (Index b = 0; b < queries; b += L * together / 2) {
      Philox x[together];
      SADDLE_UNROLL(4)
      for (int t = 0; t < together; t += 2) {
        const WordVector queries = hn::Iota(d, static_cast<std::uint32_t>(i0 + b + t / 2 * L));
        x[t] = {queries, c1, c2, c3};
        x[t + 1] = {odd_to_even(queries), c1, c2, c3};
      }
      SADDLE_UNROLL(10)
      for (int r = 0; r < 10; ++r) SADDLE_UNROLL(4)
      for (int t = 0; t < together; ++t) x[t].round(keys[r][0], keys[r][1]);
      SADDLE_UNROLL(4)
      for (int t = 0; t < together; t += 2) {
        const WordVector words[4] = {both(x[t].c0, x[t + 1].c0), both(x[t].c1, x[t + 1].c1), both(x[t].c2, x[t + 1].c2),
                                     both(x[t].c3, x[t + 1].c3)};
        SADDLE_UNROLL(4)
        for (int w = 0; w < 4; ++w) {
          const auto keep = [&](WordVector half, std::uint64_t& to) HWY_ATTR {
            hn::StoreMaskBits(signed_words, hn::Gt(hn::BitCast(signed_words, half), dropped),
                              reinterpret_cast<std::uint8_t*>(&to) + (b + t / 2 * L) / 8);
          };
          keep(hn::And(words[w], hn::Set(d, 0xffffu)), own[2 * w]);
          keep(hn::ShiftRight<16>(words[w]), own[2 * w + 1]);
        }
      }
    }
    for (Index c = std::max<Index>(0, group * 8 - j0); c < std::min(count, group * 8 + 8 - j0); ++c)
      bits[c] = own[j0 + c - group * 8];
  }
}

#endif

}  // namespace saddle::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
