// The AMX ceiling: tile products on random values, all operands in tile registers. Needs amx_permitted().
#include "limits.hpp"
#include "saddle/base/random.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <array>

#define SADDLE_AMX __attribute__((target("amx-tile,amx-bf16")))

namespace saddle::bench {

namespace {

struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1, start_row = 0;
  std::array<std::uint8_t, 14> reserved{};
  std::array<std::uint16_t, 16> row_bytes{};
  std::array<std::uint8_t, 16> rows{};
};

// Random values cost the power that real data costs; zeros would run at a higher clock.
const std::uint16_t* random_tiles() {
  alignas(64) static const std::array<std::uint16_t, 4 * 512> values = [] {
    std::array<std::uint16_t, 4 * 512> v{};
    const Stream stream(0, "tiles");
    for (std::size_t i = 0; i < v.size(); ++i) {
      const std::uint32_t bits = stream.bits32_at(i);
      // Sign and mantissa at random, magnitude between 1/4 and 1.
      v[i] = static_cast<std::uint16_t>((bits & 0x807fu) | (0x3e80u + (bits >> 16 & 0x80u)));
    }
    return v;
  }();
  return values.data();
}

}  // namespace

SADDLE_AMX double amx_tile_products(long repeats) {
  TileConfiguration configuration;
  for (std::size_t i = 0; i < 8; ++i) configuration.row_bytes[i] = 64, configuration.rows[i] = 16;
  const std::uint16_t* values = random_tiles();
  // GCC 12 takes only eight bytes of the operand as read.
  asm volatile("" : : "r"(&configuration) : "memory");
  _tile_loadconfig(&configuration);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, values, 64);
  _tile_loadd(5, values + 512, 64);
  _tile_loadd(6, values + 1024, 64);
  _tile_loadd(7, values + 1536, 64);
  for (long r = 0; r < repeats; ++r) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return 4.0 * 16 * 16 * 32 * 2 * static_cast<double>(repeats);
}

}  // namespace saddle::bench

#undef SADDLE_AMX
#else

namespace saddle::bench {
double amx_tile_products(long) { return 0; }
}  // namespace saddle::bench

#endif
