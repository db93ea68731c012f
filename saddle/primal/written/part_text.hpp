// Parts as text: a term to a part and back, whatever the part is. Internal to the written form and to mechanisms with
// options of their own.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "saddle/primal/written/option_text.hpp"
#include "saddle/primal/written/terms.hpp"

namespace saddle::primal {

inline std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string close = nearest(word, known);
  return close.empty() ? "" : fmt::format("did you mean '{}'?", close);
}

template <class P>
std::vector<std::string> option_names() {
  std::vector<std::string> names;
  P part;
  P::options(part, [&](const OptionInfo& info, auto&) { names.emplace_back(info.name); });
  return names;
}

// Sets the option called `key` of a part from text.
template <class P>
void assign(P& part, const std::string& key, const Argument& argument) {
  P::options(part, [&]<class T>(const OptionInfo& info, T& field) {
    if (info.name != key) return;
    if (!decode(argument.value, field))
      throw Mistake{argument.position,
                    fmt::format("{}: option '{}' takes {}, found '{}'", P::name, key, kind_of(field), argument.value),
                    did_you_mean(argument.value, words_of<T>())};
  });
}

// Positional arguments fill the options in order; a list option takes all that are left.
template <class P>
P make(const Term& term) {
  P part;
  const auto names = option_names<P>();
  std::vector<std::string> given;
  std::string list_option;
  P::options(part, [&]<class T>(const OptionInfo& info, T&) {
    if constexpr (std::is_same_v<T, std::vector<Index>>) list_option = info.name;
  });
  std::size_t next = 0;
  std::string list;
  for (const Argument& argument : term.arguments) {
    std::string key = argument.key;
    if (key.empty()) {
      if (next == names.size())
        throw Mistake{argument.position,
                      fmt::format("{}: found a value '{}' too many, it takes {}", P::name, argument.value,
                                  names.empty() ? "no options" : fmt::format("{}", fmt::join(names, ", "))),
                      ""};
      key = names[next];
      if (key == list_option && std::find(given.begin(), given.end(), key) == given.end()) {
        list += (list.empty() ? "" : ",") + argument.value;
        assign(part, key, {key, list, argument.position});
        continue;
      }
      ++next;
    }
    if (std::find(names.begin(), names.end(), key) == names.end())
      throw Mistake{argument.position,
                    fmt::format("{}: unknown option '{}', expected {}", P::name, key,
                                names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))),
                    did_you_mean(key, names)};
    if (std::find(given.begin(), given.end(), key) != given.end() || (key == list_option && !list.empty()))
      throw Mistake{argument.position, fmt::format("{}: option '{}' is given twice", P::name, key), ""};
    given.push_back(key);
    assign(part, key, argument);
  }
  return part;
}

// The part as it is written; options at their default are left out.
template <class P>
std::string print(const P& part) {
  std::vector<std::string> written;
  const P defaults;
  std::vector<std::string> default_texts;
  P::options(defaults, [&](const OptionInfo&, const auto& field) { default_texts.push_back(encode(field)); });
  std::size_t option = 0;
  P::options(part, [&](const OptionInfo& info, const auto& field) {
    const std::string text = encode(field);
    if (info.written == Written::positional) {
      if (!text.empty()) written.push_back(text);
    } else if (text != default_texts[option]) {
      written.push_back(fmt::format("{}={}", info.name, text));
    }
    ++option;
  });
  return written.empty() ? std::string(P::name) : fmt::format("{}({})", P::name, fmt::join(written, ","));
}

// Every option with the value it has.
template <class P>
std::vector<OptionHelp> options_of(const P& part) {
  std::vector<OptionHelp> options;
  P::options(part, [&](const OptionInfo& info, const auto& field) {
    options.push_back({std::string(info.name), kind_of(field), encode(field), std::string(info.help)});
  });
  return options;
}

}  // namespace saddle::primal
