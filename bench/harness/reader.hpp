// Strict reading of TOML: whatever is wrong is a DataError that names its place and, for a mistyped word, the one that
// was probably meant.
#pragma once

#include <fmt/format.h>

#include <toml++/toml.h>
#include <string>
#include <string_view>
#include <vector>

#include "saddle/base/error.hpp"
#include "saddle/base/shape.hpp"

namespace saddle::bench {

class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  const std::string& file() const { return file_; }
  toml::table parse(std::string_view text) const;
  [[noreturn]] void fail(const toml::node& at, const std::string& message, const std::string& hint = {}) const;
  // `what` is named in messages.
  void require_keys(const toml::table& table, const std::vector<std::string>& known, const char* what) const;
  void require_word(const toml::node& node, const std::string& word, const std::vector<std::string>& known,
                    const char* what) const;

  const toml::table& table(const toml::node& node, const char* what) const;
  std::string string(const toml::table& table, std::string_view key, const std::string& fallback) const;
  double number(const toml::node& node, std::string_view key) const;
  // One value or a list of them.
  std::vector<std::string> strings(const toml::table& table, std::string_view key,
                                   std::vector<std::string> fallback) const;
  std::vector<Index> integers(const toml::node& node, std::string_view key) const;
  // Numbers of threads, 0 replaced by all cores.
  std::vector<int> threads(const toml::table& table, std::vector<int> fallback) const;

  // Runs an action whose errors are about this node.
  template <class Action>
  auto about(const toml::node& node, Action&& action) const {
    try {
      return action();
    } catch (const InvalidArgument& error) {
      fail(node, error.what(), error.hint());
    }
  }

  // Of 'shape', a list of numbers or a list of such lists: convert(numbers) of each.
  template <class Convert>
  auto shapes(const toml::node& node, Convert&& convert) const {
    const toml::array* array = node.as_array();
    if (array == nullptr || array->empty()) fail(node, "'shape' must be a list of numbers, or a list of such lists");
    std::vector<decltype(convert(std::vector<Index>{}))> list;
    const auto add = [&](const toml::node& one) {
      list.push_back(about(one, [&] { return convert(integers(one, "shape")); }));
    };
    if (array->front().is_array()) {
      for (const toml::node& one : *array) add(one);
    } else {
      add(node);
    }
    return list;
  }

 private:
  std::string file_;
};

}  // namespace saddle::bench
