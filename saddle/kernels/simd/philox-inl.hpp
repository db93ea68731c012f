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

#include "saddle/base/view.hpp"
#include "saddle/kernels/simd/tile-inl.hpp"
#include "saddle/primal/dropout.hpp"

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
      const auto words =
          philox({static_cast<std::uint32_t>(i0 + b), static_cast<std::uint32_t>(j / 8), head, offset},
                 {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}, primal::dropout_rounds);
      const std::uint32_t own = words[j % 8 / 2] >> (j % 2 * 16) & 0xffffu;
      bits[c] |= std::uint64_t{own >= threshold} << b;
    }
  }
}

#else

using Words = hn::ScalableTag<std::uint32_t>;
using WordVector = hn::Vec<Words>;

inline constexpr std::uint32_t philox_factors[2] = {0xD2511F53u, 0xCD9E8D57u};

// Of the even lanes; odd lanes hold what is left of products and never count.
HWY_INLINE WordVector philox_product(WordVector x, int which) {
  return hn::BitCast(Words(), hn::MulEven(x, hn::Set(Words(), philox_factors[which])));
}
HWY_INLINE WordVector odd_to_even(WordVector x) {
  const hn::RepartitionToWide<Words> wide;
  return hn::BitCast(Words(), hn::ShiftRight<32>(hn::BitCast(wide, x)));
}
// The even lanes of both, in turn.
HWY_INLINE WordVector both(WordVector even, WordVector odd) {
  const hn::RepartitionToWide<Words> wide;
  return hn::OddEven(hn::BitCast(Words(), hn::ShiftLeft<32>(hn::BitCast(wide, odd))), even);
}

// Counters of Philox in the even lanes of four vectors.
struct Philox {
  WordVector c0, c1, c2, c3;

  HWY_INLINE void round(const std::uint32_t* key) {
    const Words d;
    const WordVector a = philox_product(c0, 0), b = philox_product(c2, 1);
    c0 = hn::Xor3(odd_to_even(b), c1, hn::Set(d, key[0]));
    c1 = b;
    c2 = hn::Xor3(odd_to_even(a), c3, hn::Set(d, key[1]));
    c3 = a;
  }
};

// The first three rounds for counters (query, group of keys, head, offset). Most of them depends on the query or on the
// group alone, so it is done once for all groups, or once for all queries.
class PhiloxStart {
 public:
  static constexpr int rounds = 3;

  // Counters 0, 1, ... are those of the even and the odd queries of a vector, in turn, from i0 on.
  HWY_INLINE PhiloxStart(const std::uint32_t (*keys)[2], std::uint32_t head, std::uint32_t offset, std::uint32_t i0,
                         Index queries)
      : key_(keys[0][0]) {
    const Words d;
    const std::uint64_t b = philox_factors[1] * std::uint64_t{head};
    head_ = static_cast<std::uint32_t>(b >> 32);
    for (Index n = 0; n * L / 2 < queries; ++n) {
      const WordVector own = hn::Iota(d, i0 + static_cast<std::uint32_t>(n / 2 * L));
      const WordVector a1 = philox_product(n % 2 == 0 ? own : odd_to_even(own), 0);
      const WordVector b2 = philox_product(hn::Xor(odd_to_even(a1), hn::Set(d, offset ^ keys[0][1])), 1);
      const WordVector c0 = hn::Xor(odd_to_even(b2), hn::Set(d, static_cast<std::uint32_t>(b) ^ keys[1][0]));
      const WordVector a3 = philox_product(c0, 0);
      hn::Store(hn::Xor(a1, hn::Set(d, keys[1][1])), d, known_[n][0]);
      hn::Store(hn::Xor(b2, hn::Set(d, keys[2][0])), d, known_[n][1]);
      hn::Store(hn::Xor(odd_to_even(a3), hn::Set(d, keys[2][1])), d, known_[n][2]);
      hn::Store(a3, d, known_[n][3]);
    }
  }

  HWY_INLINE void set_group(std::uint32_t group) { a2_ = philox_factors[0] * std::uint64_t{group ^ head_ ^ key_}; }

  // Counter n after these rounds.
  HWY_INLINE Philox operator[](Index n) const {
    const Words d;
    const WordVector low = hn::Set(d, static_cast<std::uint32_t>(a2_));
    const WordVector high = hn::Set(d, static_cast<std::uint32_t>(a2_ >> 32));
    const WordVector b3 = philox_product(hn::Xor(high, hn::Load(d, known_[n][0])), 1);
    return {hn::Xor(odd_to_even(b3), hn::Load(d, known_[n][1])), b3, hn::Xor(low, hn::Load(d, known_[n][2])),
            hn::Load(d, known_[n][3])};
  }

 private:
  static constexpr Index L = HWY_LANES(std::uint32_t);

  std::uint32_t key_, head_;
  std::uint64_t a2_ = 0;
  HWY_ALIGN std::uint32_t known_[2 * 64 / L][4][L];
};

// bits [count]: bit b < queries of bits[c] says that the weight of query i0 + b and key j0 + c stays. head: b H + h.
inline HWY_NOINLINE void keep_bits(std::uint64_t seed, std::uint32_t offset, std::uint32_t head,
                                   std::uint32_t threshold, Index i0, Index queries, Index j0, Index count,
                                   std::uint64_t* bits) {
  const Words d;
  constexpr Index L = HWY_LANES(std::uint32_t);
  constexpr int rounds = primal::dropout_rounds;
  constexpr int together = 4;  // chains of rounds, which hide each other's latency
  std::uint32_t keys[rounds][2] = {{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  for (int r = 1; r < rounds; ++r) {
    keys[r][0] = keys[r - 1][0] + 0x9E3779B9u;
    keys[r][1] = keys[r - 1][1] + 0xBB67AE85u;
  }
  PhiloxStart start(keys, head, offset, static_cast<std::uint32_t>(i0), (queries + 2 * L - 1) / (2 * L) * 2 * L);
  const hn::RebindToSigned<Words> signed_words;  // 16 bits are small enough, and AVX2 compares nothing else
  const auto dropped = hn::Set(signed_words, static_cast<std::int32_t>(threshold) - 1);
  std::uint64_t own[8] = {};  // of the keys of a group; x86 has the first queries in the first bytes
  for (Index group = j0 / 8; group * 8 < j0 + count; ++group) {
    start.set_group(static_cast<std::uint32_t>(group));
    for (Index b = 0; b < queries; b += L * together / 2) {
      Philox x[together];
      SADDLE_UNROLL(4)
      for (int t = 0; t < together; ++t) x[t] = start[2 * b / L + t];
      SADDLE_UNROLL(8)
      for (int r = PhiloxStart::rounds; r < rounds; ++r) SADDLE_UNROLL(4)
      for (int t = 0; t < together; ++t) x[t].round(keys[r]);
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
