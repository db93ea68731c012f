// Writes out how a declared attention follows from its primal problem, with its cost and its certificate.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "saddle/base/export.hpp"
#include "saddle/primal/attention.hpp"

namespace saddle::primal {

enum class Format { text, markdown, latex, html };
template <>
inline constexpr std::array<std::string_view, 4> enum_words<Format>{"text", "markdown", "latex", "html"};
// Throws InvalidArgument with the nearest word.
SADDLE_API Format parse_format(std::string_view word);

struct DerivationOptions {
  Format format = Format::text;
  Dims dims = {1, 2, 8, 8, 4, 4};  // shapes of the cost table and of the certificate's data
  std::uint64_t seed = 0;          // of that data
  bool certificate = true;
};

// `dims` with the extents that the value itself fixes: heads from its pooling factors, tokens and features from grids.
SADDLE_API Dims fitting_dims(const Attention& attention, Dims dims = DerivationOptions{}.dims);

// The derivation step by step: value, primal problem, Lagrangian, stationarity, expansion, evaluation forms, cost,
// certificate. latex and html are complete documents. Throws InvalidArgument when value and dims do not fit together.
SADDLE_API std::string derive(const Attention& attention, const DerivationOptions& options = {});
// The same content as data: value, steps, cost table, certificate (null when not asked for).
SADDLE_API std::string derive_json(const Attention& attention, const DerivationOptions& options = {});

}  // namespace saddle::primal
