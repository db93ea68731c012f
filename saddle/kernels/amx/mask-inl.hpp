// Which keys the queries of a panel see. Included inside the target options of the files that use it.
#pragma once

#include "saddle/kernels/amx/amx_core.hpp"
#include "saddle/kernels/amx/tile-inl.hpp"

namespace saddle::kernels {
namespace {

// Bits 0..15 to the even bits 0..30.
inline std::uint32_t spread(std::uint32_t x) {
  x = (x | (x << 8)) & 0x00FF00FFu;
  x = (x | (x << 4)) & 0x0F0F0F0Fu;
  x = (x | (x << 2)) & 0x33333333u;
  return (x | (x << 1)) & 0x55555555u;
}

// Which of 32 queries see each of 32 keys.
struct PanelMask {
  std::uint32_t key[panel];
  __mmask32 pair[2][tile];  // of both keys of a pair, for the halves of the queries, as they lie in a row of P^T

  void read(const AmxHead& head, Index i0, Index j0) {
    std::uint64_t bits[panel];
    const Index count = std::min(panel, head.K - j0);
    head.visibility->columns(i0, j0, count, bits);
    for (Index c = 0; c < panel; ++c) key[c] = c < count ? static_cast<std::uint32_t>(bits[c]) : 0;
  }
  void find_pairs() {
    for (Index j = 0; j < 2; ++j)
      for (Index r = 0; r < tile; ++r)
        pair[j][r] = spread((key[2 * r] >> (16 * j)) & 0xFFFFu) | (spread((key[2 * r + 1] >> (16 * j)) & 0xFFFFu) << 1);
  }
  __mmask16 of_key(Index c, Index j) const { return static_cast<__mmask16>(key[c] >> (16 * j)); }
};

// A panel of 32 keys that some query of a group of 32 sees; masked: not every query sees all of it.
struct VisiblePanel {
  Index index;
  bool masked;
};

// The panels of [p0,p1) that queries from i0 see.
inline Index list_panels(const AmxHead& head, Index i0, Index p0, Index p1, VisiblePanel* panels) {
  const Index i1 = std::min(i0 + panel, head.N);
  const auto [lo, hi] = head.visibility->key_range(i0, i1);
  p0 = std::max(p0, lo / panel);
  p1 = std::min(p1, (hi + panel - 1) / panel);
  Index count = 0;
  for (Index p = p0; p < p1; ++p) {
    const Index j1 = std::min((p + 1) * panel, head.K);
    const Cover cover = head.visibility->cover(i0, i1, p * panel, j1);
    if (cover != Cover::none) panels[count++] = {p, cover == Cover::some || j1 % panel != 0};
  }
  return count;
}

}  // namespace
}  // namespace saddle::kernels
