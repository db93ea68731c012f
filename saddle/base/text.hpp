// Small things about text: the word that was probably meant, joined lists, numbers that survive a round trip.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saddle/base/export.hpp"

namespace saddle {

// The candidate that `word` was probably meant to be, empty if none is close. Counts insertions, deletions,
// replacements and swapped neighbours without regard to case; a beginning of three letters or more is close too.
SADDLE_API std::string nearest(std::string_view word, std::span<const std::string_view> candidates);

template <class Range>
std::string nearest(std::string_view word, const Range& candidates) {
  const std::vector<std::string_view> views(std::begin(candidates), std::end(candidates));
  return nearest(word, std::span<const std::string_view>(views));
}

// "a, b, c"
template <class Range>
std::string join(const Range& items, std::string_view separator = ", ") {
  std::string text;
  bool first = true;
  for (const auto& item : items) {
    if (!first) text += separator;
    text += std::string_view(item);
    first = false;
  }
  return text;
}

// The shortest text that parse_number reads back to the same bits: "0.1", "1e-06", "-0", "inf", "nan".
SADDLE_API std::string format_number(double value);

// The whole text as a number in decimal notation. No blanks, no leading +, no hexadecimal; nothing that overflows.
SADDLE_API std::optional<double> parse_number(std::string_view text);

}  // namespace saddle
