// Element types, and bfloat16 as a storage type.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "saddle/base/export.hpp"

namespace saddle {

enum class DType { f64, f32, bf16, i64, i32, u8, boolean };

SADDLE_API std::string_view to_string(DType dtype);
SADDLE_API std::size_t size_of(DType dtype);
constexpr bool is_floating(DType dtype) { return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16; }

// The upper half of a float. Rounds to nearest even; NaN stays NaN.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    bits = std::isnan(value) ? static_cast<std::uint16_t>((word >> 16) | 0x40u)
                             : static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
  explicit BFloat16(double value) : BFloat16(round_to_odd(value)) {}
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  explicit operator double() const { return static_cast<float>(*this); }
  bool operator==(const BFloat16&) const = default;

 private:
  // Rounding twice (double, float, bfloat16) would be off by one bit on near-ties; rounding to odd first is exact.
  static float round_to_odd(double value) {
    const auto nearest = static_cast<float>(value);
    if (std::isnan(value) || static_cast<double>(nearest) == value || std::isinf(nearest)) return nearest;
    const auto word = std::bit_cast<std::uint32_t>(nearest);
    if ((word & 1u) != 0) return nearest;
    const bool away = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
    return std::bit_cast<float>(away ? word - 1u : word + 1u);
  }
};

}  // namespace saddle
