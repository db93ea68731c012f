#include "saddle/data/class_names.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "saddle/data/number.hpp"

namespace saddle::data {

namespace {

std::optional<double> number_of(std::string_view name) {
  double value = 0;
  return read_field(name, value) == Found::number ? std::optional(value) : std::nullopt;
}

// The names by their numbers, the shortest of each; nothing where one is no number.
std::map<double, std::string_view> by_number(const std::vector<std::string>& names) {
  std::map<double, std::string_view> found;
  for (const std::string& name : names) {
    const auto number = number_of(name);
    if (!number) return {};
    const auto [at, is_new] = found.emplace(*number, name);
    if (!is_new && name.size() < at->second.size()) at->second = name;
  }
  return found;
}

}  // namespace

std::vector<std::string> class_names(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const auto numbers = by_number(names);
  if (numbers.empty() || numbers.size() == names.size()) return names;
  std::vector<std::string> left;
  for (const auto& [number, name] : numbers) left.emplace_back(name);
  std::sort(left.begin(), left.end());
  return left;
}

Index class_number(const std::vector<std::string>& names, std::string_view name) {
  const auto index = [&](std::string_view exact) -> Index {
    const auto at = std::lower_bound(names.begin(), names.end(), exact);
    return at != names.end() && *at == exact ? at - names.begin() : -1;
  };
  if (const Index exact = index(name); exact >= 0) return exact;
  const auto number = number_of(name);
  if (!number) return -1;
  const auto numbers = by_number(names);
  const auto same = numbers.find(*number);
  return same == numbers.end() ? -1 : index(same->second);
}

}  // namespace saddle::data
