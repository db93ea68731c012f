// Options as text: how each type of option is written, read back and described. Internal to the written form.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <type_traits>

#include "saddle/base/text.hpp"
#include "saddle/primal/part.hpp"

namespace saddle::primal {

// Index
inline std::string encode(Index value) { return std::to_string(value); }
inline bool decode(std::string_view text, Index& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}
inline std::string kind_of(const Index&) { return "a whole number"; }

// double
inline std::string encode(double value) { return format_number(value); }
inline bool decode(std::string_view text, double& value) {
  const auto number = parse_number(text);
  if (number) value = *number;
  return number.has_value();
}
inline std::string kind_of(const double&) { return "a number"; }

inline std::string encode(const std::optional<double>& value) { return value ? encode(*value) : ""; }
inline bool decode(std::string_view text, std::optional<double>& value) { return decode(text, value.emplace()); }
inline std::string kind_of(const std::optional<double>&) { return "a number"; }

// bool
inline std::string encode(bool value) { return value ? "true" : "false"; }
inline bool decode(std::string_view text, bool& value) {
  value = text == "true";
  return value || text == "false";
}
inline std::string kind_of(const bool&) { return "true or false"; }

// Grid: 4x5
inline std::string encode(const Grid& grid) {
  return grid.empty() ? "" : std::to_string(grid.rows) + "x" + std::to_string(grid.columns);
}
inline bool decode(std::string_view text, Grid& grid) {
  const auto cross = text.find('x');
  Index cells = 0;
  return cross != std::string_view::npos && decode(text.substr(0, cross), grid.rows) &&
         decode(text.substr(cross + 1), grid.columns) && grid.rows > 0 && grid.columns > 0 &&
         !__builtin_mul_overflow(grid.rows, grid.columns, &cells);
}
inline std::string kind_of(const Grid&) { return "rows x columns such as 4x5"; }

// List: 1,1,2,2
inline std::string encode(const std::vector<Index>& list) {
  std::string text;
  for (Index value : list) text += (text.empty() ? "" : ",") + std::to_string(value);
  return text;
}
inline bool decode(std::string_view text, std::vector<Index>& list) {
  list.clear();
  while (true) {
    const auto comma = text.find(',');
    if (!decode(text.substr(0, comma), list.emplace_back())) return false;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}
inline std::string kind_of(const std::vector<Index>&) { return "a list of whole numbers"; }

// Enumerations, through enum_words
template <class E>
requires std::is_enum_v<E> std::string encode(E value) {
  return std::string(enum_words<E>[static_cast<std::size_t>(value)]);
}
template <class E>
requires std::is_enum_v<E>
bool decode(std::string_view text, E& value) {
  for (std::size_t w = 0; w < enum_words<E>.size(); ++w)
    if (enum_words<E>[w] == text) {
      value = static_cast<E>(w);
      return true;
    }
  return false;
}
template <class E>
requires std::is_enum_v<E> std::string kind_of(const E&) {
  std::string text;
  for (std::size_t w = 0; w < enum_words<E>.size(); ++w)
    text += (w == 0 ? "" : w + 1 == enum_words<E>.size() ? " or " : ", ") + std::string(enum_words<E>[w]);
  return text;
}

// The words an option of this type can take, for suggestions.
template <class T>
std::vector<std::string> words_of() {
  if constexpr (std::is_enum_v<T>) {
    return {enum_words<T>.begin(), enum_words<T>.end()};
  } else {
    return {};
  }
}

}  // namespace saddle::primal
