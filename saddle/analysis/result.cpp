#include "saddle/analysis/result.hpp"

#include <algorithm>
#include <charconv>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::analysis {

namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& value, const std::string& wanted) {
  throw InvalidArgument("option '" + name + "' takes " + wanted + ", found '" + value + "'");
}

}  // namespace

const std::string* Options::find(const std::string& name) {
  known_.push_back(name);
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

std::string Options::text(const std::string& name, const std::string& fallback) {
  const std::string* const value = find(name);
  return value != nullptr ? *value : fallback;
}

double Options::number(const std::string& name, double fallback) {
  const std::string* const value = find(name);
  if (value == nullptr) return fallback;
  const auto number = parse_number(*value);
  if (!number) refuse(name, *value, "a number");
  return *number;
}

Index Options::integer(const std::string& name, Index fallback) {
  const std::string* const value = find(name);
  if (value == nullptr) return fallback;
  Index number = 0;
  const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
  if (error != std::errc() || end != value->data() + value->size()) refuse(name, *value, "a whole number");
  return number;
}

bool Options::flag(const std::string& name, bool fallback) {
  const std::string* const value = find(name);
  if (value == nullptr) return fallback;
  if (*value != "true" && *value != "false") refuse(name, *value, "true or false");
  return *value == "true";
}

std::vector<std::string> Options::list(const std::string& name) {
  const std::string* const value = find(name);
  std::vector<std::string> pieces;
  if (value == nullptr) return pieces;
  std::size_t at = 0;
  for (std::size_t comma = value->find(','); comma != std::string::npos; comma = value->find(',', at)) {
    pieces.push_back(value->substr(at, comma - at));
    at = comma + 1;
  }
  pieces.push_back(value->substr(at));
  return pieces;
}

void Options::check() const {
  for (const auto& [name, value] : values_)
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
      const std::string close = nearest(name, known_);
      throw InvalidArgument("unknown option '" + name + "', known are " + (known_.empty() ? "none" : join(known_)),
                            close.empty() ? "" : "did you mean '" + close + "'?");
    }
}

}  // namespace saddle::analysis
