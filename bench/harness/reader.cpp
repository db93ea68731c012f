#include "reader.hpp"

#include <algorithm>
#include <cmath>

#include "saddle/base/cpu.hpp"
#include "saddle/base/text.hpp"

namespace saddle::bench {

void Reader::fail(const toml::node& at, const std::string& message, const std::string& hint) const {
  throw DataError(file_, at.source().begin.line, at.source().begin.column, message, hint);
}

toml::table Reader::parse(std::string_view text) const {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw DataError(file_, error.source().begin.line, error.source().begin.column, std::string(error.description()));
  }
}

void Reader::require_keys(const toml::table& table, const std::vector<std::string>& known, const char* what) const {
  for (const auto& [key, value] : table) {
    const std::string name(key.str());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string close = nearest(name, known);
    fail(value, fmt::format("unknown key '{}' of a {}, expected {}", name, what, join(known, ", ")),
         close.empty() ? "" : fmt::format("did you mean '{}'?", close));
  }
}

void Reader::require_word(const toml::node& node, const std::string& word, const std::vector<std::string>& known,
                          const char* what) const {
  if (std::find(known.begin(), known.end(), word) != known.end()) return;
  const std::string close = nearest(word, known);
  fail(node, fmt::format("unknown {} '{}', expected {}", what, word, join(known, ", ")),
       close.empty() ? "" : fmt::format("did you mean '{}'?", close));
}

const toml::table& Reader::table(const toml::node& node, const char* what) const {
  if (!node.is_table()) fail(node, fmt::format("a {} must be a table", what));
  return *node.as_table();
}

std::string Reader::string(const toml::table& table, std::string_view key, const std::string& fallback) const {
  const toml::node* node = table.get(key);
  if (node == nullptr) return fallback;
  if (!node->is_string()) fail(*node, fmt::format("'{}' must be a string", key));
  return *node->value<std::string>();
}

double Reader::number(const toml::node& node, std::string_view key) const {
  const auto value = node.value<double>();
  if (!node.is_number() || !value || !std::isfinite(*value)) fail(node, fmt::format("'{}' must be a number", key));
  return *value;
}

std::vector<std::string> Reader::strings(const toml::table& table, std::string_view key,
                                         std::vector<std::string> fallback) const {
  const toml::node* node = table.get(key);
  if (node == nullptr) return fallback;
  std::vector<std::string> list;
  const auto add = [&](const toml::node& item) {
    if (!item.is_string()) fail(item, fmt::format("'{}' must be a string or a list of strings", key));
    list.push_back(*item.value<std::string>());
  };
  if (const toml::array* array = node->as_array()) {
    for (const toml::node& item : *array) add(item);
  } else {
    add(*node);
  }
  return list;
}

std::vector<Index> Reader::integers(const toml::node& node, std::string_view key) const {
  std::vector<Index> list;
  const auto add = [&](const toml::node& item) {
    if (!item.is_integer()) fail(item, fmt::format("'{}' must hold whole numbers", key));
    list.push_back(*item.value<Index>());
  };
  if (const toml::array* array = node.as_array()) {
    for (const toml::node& item : *array) add(item);
  } else {
    add(node);
  }
  return list;
}

std::vector<int> Reader::threads(const toml::table& table, std::vector<int> fallback) const {
  const toml::node* node = table.get("threads");
  if (node == nullptr) return fallback;
  std::vector<int> list;
  for (Index count : integers(*node, "threads")) {
    if (count < 0 || count > 1024) fail(*node, fmt::format("'threads' must be 0 (all cores) to 1024, found {}", count));
    list.push_back(count == 0 ? cpu().cores : static_cast<int>(count));
  }
  return list;
}

}  // namespace saddle::bench
