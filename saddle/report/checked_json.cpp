#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

#include "saddle/base/error.hpp"
#include "saddle/report/checked_json_internal.hpp"

namespace saddle::report {

namespace {

std::string_view kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::object: return "an object";
    case Json::value_t::array: return "an array";
    case Json::value_t::string: return "a text";
    case Json::value_t::boolean: return "true or false";
    case Json::value_t::null: return "null";
    default: return "a number";
  }
}

}  // namespace

void Field::fail(const std::string& message) const {
  throw DataError(file_, line_, 0, path_.empty() ? message : path_ + ": " + message);
}

void Field::wrong_type(std::string_view expected) const {
  fail(fmt::format("expected {}, found {}", expected, kind_of(*value_)));
}

std::optional<Field> Field::find(const std::string& key) const {
  object();
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return Field(*found, file_, line_, path_.empty() ? key : path_ + "." + key);
}

Field Field::at(const std::string& key) const {
  if (const auto found = find(key)) return *found;
  fail(fmt::format("'{}' is missing", key));
}

const Field& Field::object() const {
  if (!value_->is_object()) wrong_type("an object");
  return *this;
}

std::vector<Field> Field::items() const {
  if (!value_->is_array()) wrong_type("an array");
  std::vector<Field> fields;
  fields.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i)
    fields.emplace_back((*value_)[i], file_, line_, fmt::format("{}[{}]", path_, i));
  return fields;
}

const std::string& Field::text() const {
  if (!value_->is_string()) wrong_type("a text");
  return value_->get_ref<const std::string&>();
}

double Field::number() const {
  if (!value_->is_number()) wrong_type("a number");
  return value_->get<double>();
}

Index Field::whole() const {
  constexpr double largest = 9007199254740992.0;  // beyond it the page could not count exactly
  const double value = number();
  if (value < 0 || value != std::floor(value) || value > largest)
    fail(fmt::format("expected a whole number from 0, found {}", value_->dump()));
  return static_cast<Index>(value);
}

std::vector<std::string> Field::texts() const {
  std::vector<std::string> list;
  for (const Field& item : items()) list.push_back(item.text());
  return list;
}

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw IoError(fmt::format("cannot read {}", file.string()), "is it there, and readable?");
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (in.bad()) throw IoError(fmt::format("cannot read {}", file.string()));
  return text;
}

Json parse_json(std::string_view text, const std::string& file, long line) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    const std::size_t at = std::min(text.size(), error.byte == 0 ? 0 : error.byte - 1);
    const std::string_view before = text.substr(0, at);
    const std::size_t start = before.rfind('\n');
    throw DataError(file, line + static_cast<long>(std::count(before.begin(), before.end(), '\n')),
                    static_cast<long>(start == std::string_view::npos ? at + 1 : at - start),
                    text.empty() ? "the file is empty, expected JSON" : "this is not JSON",
                    "was the file cut short, or edited?");
  } catch (const Json::out_of_range& error) {
    throw DataError(file, line, 0, "a number is too large");
  }
}

Json rounded(double value, int digits) {
  if (!std::isfinite(value)) return nullptr;
  return std::stod(fmt::format("{:.{}g}", value, digits));
}

}  // namespace saddle::report
