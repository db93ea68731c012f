// JSON from files that anybody may have written: every access says what it expects, and errors name file and field.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saddle/base/view.hpp"

namespace saddle::report {

using Json = nlohmann::ordered_json;

// A value and where it stands; the file's document must outlive it.
class Field {
 public:
  Field(const Json& value, std::string file, long line = 0, std::string path = {})
      : value_(&value), file_(std::move(file)), line_(line), path_(std::move(path)) {}

  const Json& json() const { return *value_; }

  // A member of an object; a missing one is an error, or nothing. null counts as missing.
  Field at(const std::string& key) const;
  std::optional<Field> find(const std::string& key) const;

  std::vector<Field> items() const;  // of an array
  const std::string& text() const;
  double number() const;
  Index whole() const;  // >= 0
  std::vector<std::string> texts() const;
  const Field& object() const;

  [[noreturn]] void fail(const std::string& message) const;

 private:
  [[noreturn]] void wrong_type(std::string_view expected) const;

  const Json* value_;
  std::string file_;
  long line_;
  std::string path_;  // "test.per_class[3].label"
};

// The file as text. Throws IoError.
std::string read_text(const std::filesystem::path& file);

// Throws DataError with line and column; `line` is that of the text within the file.
Json parse_json(std::string_view text, const std::string& file, long line = 1);

// The number with as many digits as a plot can show: series and curves would otherwise be most of the page.
Json rounded(double value, int digits = 5);

}  // namespace saddle::report
