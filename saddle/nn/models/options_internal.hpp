// Between the options of a model and text.
#pragma once

#include <fmt/format.h>

#include "saddle/base/error.hpp"
#include "saddle/nn/models/options.hpp"
#include "saddle/primal/written/option_text.hpp"

namespace saddle::nn {

using primal::decode;
using primal::encode;
using primal::kind_of;

inline std::string encode(const std::string& value) { return value; }
inline bool decode(std::string_view text, std::string& value) {
  value = text;
  return true;
}
inline std::string kind_of(const std::string&) { return "a word"; }

// Commas separate attentions where they stand outside of parentheses.
inline std::string encode(const Attentions& value) { return join(value, ","); }
inline bool decode(std::string_view text, Attentions& value) {
  value = {std::string()};
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      value.emplace_back();
    } else if (c != ' ') {
      value.back() += c;
    }
  }
  return true;
}
inline std::string kind_of(const Attentions&) { return "attentions such as softmax+bn(beta=0.6)"; }

inline std::string encode(const LayerHeads& value) { return encode(static_cast<const std::vector<Index>&>(value)); }
inline bool decode(std::string_view text, LayerHeads& value) {
  value.clear();
  return text.empty() || decode(text, static_cast<std::vector<Index>&>(value));
}
inline std::string kind_of(const LayerHeads&) { return "numbers such as 8,5,3, or nothing"; }

inline std::string encode(const PixelSize& value) { return fmt::format("{}x{}", value.rows, value.columns); }
inline bool decode(std::string_view text, PixelSize& value) {
  const auto cross = text.find('x');
  if (!decode(text.substr(0, cross), value.rows)) return false;
  value.columns = value.rows;
  return cross == std::string_view::npos || decode(text.substr(cross + 1), value.columns);
}
inline std::string kind_of(const PixelSize&) { return "rows x columns such as 224x160, or one number for both"; }

template <class Options>
std::vector<OptionValue> option_values_of(const Options& options) {
  std::vector<OptionValue> list;
  Options::options(options, [&](const OptionInfo& info, const auto& field) {
    list.push_back({std::string(info.name), encode(field), kind_of(field), std::string(info.help)});
  });
  return list;
}

// Throws InvalidArgument for names that are no options, with the nearest one, and for text that does not fit.
template <class Options>
void assign(Options& options, const OptionTexts& given, std::string_view model) {
  std::vector<std::string_view> names;
  Options::options(options, [&](const OptionInfo& info, auto& field) {
    names.push_back(info.name);
    const auto found = given.find(std::string(info.name));
    if (found == given.end()) return;
    if (!decode(found->second, field))
      throw InvalidArgument(
          fmt::format("[{}] option '{}' takes {}, found '{}'", model, info.name, kind_of(field), found->second));
  });
  for (const auto& [name, text] : given) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string close = nearest(name, names);
    const std::string hint = close.empty() ? "" : fmt::format("did you mean '{}'?", close);
    throw InvalidArgument(fmt::format("[{}] unknown option '{}', expected {}{}{}", model, name, join(names),
                                      hint.empty() ? "" : "; ", hint),
                          hint);
  }
}

}  // namespace saddle::nn
