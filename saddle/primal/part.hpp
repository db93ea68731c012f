// What every part of a declared attention has: a name, and options that can be visited. Parsing, printing, help and the
// TOML and JSON forms are loops over the options, so a part states each of them exactly once.
#pragma once

#include <array>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saddle/base/view.hpp"

namespace saddle::primal {

// A row-major grid or a two-dimensional kernel size, written 4x5. Empty (0x0) means: chosen from the shapes.
struct Grid {
  Index rows = 0, columns = 0;
  bool empty() const { return rows == 0; }
  Index size() const { return rows * columns; }
  bool operator==(const Grid&) const = default;
};

// How an option is written: `window(16)` is positional and always printed, `bn(beta=0.6)` is named and printed when it
// differs from the default.
enum class Written { positional, named };

struct OptionInfo {
  std::string_view name;
  Written written;
  std::string_view help;
};

// The words of an enumeration in the written form, in the order of its enumerators. Specialised beside each enum.
template <class E>
inline constexpr std::array<std::string_view, 0> enum_words{};

namespace detail {

struct AnyOption {
  template <class T>
  void operator()(const OptionInfo&, T&&) const {}
};

}  // namespace detail

// The contract of every part: a written name, one line of help, visitable options, a default value, and equality.
template <class P>
concept Part = std::default_initializable<P> && std::equality_comparable<P> && requires(P part) {
  { P::name } -> std::convertible_to<std::string_view>;
  { P::help } -> std::convertible_to<std::string_view>;
  P::options(part, detail::AnyOption{});
};

}  // namespace saddle::primal
