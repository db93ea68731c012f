// Facts of the safetensors format that reading and writing share.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "saddle/base/dtype.hpp"
#include "saddle/base/shape.hpp"

namespace saddle::io {

static_assert(std::endian::native == std::endian::little, "tensors are copied as they stand in the file");

inline constexpr std::uint64_t max_header_bytes = 100'000'000;  // the limit of the format's own library
inline constexpr std::size_t length_bytes = sizeof(std::uint64_t);
inline constexpr std::string_view metadata_key = "__metadata__";

// In the order in which the writer lays tensors out: wide elements first, so that all are aligned.
inline constexpr std::pair<std::string_view, DType> dtype_names[] = {
    {"I64", DType::i64},   {"F64", DType::f64}, {"F32", DType::f32},      {"I32", DType::i32},
    {"BF16", DType::bf16}, {"U8", DType::u8},   {"BOOL", DType::boolean},
};
inline constexpr std::string_view held_dtypes = "F64, F32, BF16, I64, I32, U8 and BOOL";
inline constexpr std::string_view foreign_dtypes[] = {
    "F16",     "I16",     "U16",     "U32",     "U64",         "I8",          "C64", "F8_E4M3",
    "F8_E5M2", "F8_E8M0", "F6_E2M3", "F6_E3M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F4",
};

// Bytes of a dense tensor; nothing when they cannot be addressed. Zero extents do not hide an overflow of the others,
// which would come back in the strides.
inline std::optional<Index> byte_count(DType dtype, const Shape& shape) {
  auto bytes = static_cast<Index>(size_of(dtype));
  bool empty = false;
  for (Index extent : shape) {
    empty = empty || extent == 0;
    if (extent < 0 || __builtin_mul_overflow(bytes, std::max<Index>(extent, 1), &bytes)) return std::nullopt;
  }
  return empty ? 0 : bytes;
}

}  // namespace saddle::io
