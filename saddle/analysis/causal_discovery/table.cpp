#include "saddle/analysis/causal_discovery/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

// A column of numbers with no more different values than this is taken for one of categories.
constexpr std::size_t few_values = 10;

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
}

// Different values that a column of so many rows may have as one of categories: chi-square wants about 5 observations
// of each. Words can be nothing else, so of them only columns of names are ruled out.
std::size_t most_different(std::size_t rows, bool numbers) {
  return std::min<std::size_t>(rows / (numbers ? 5 : 2), most_categories);
}

bool all_numbers(const auto& fields) {
  return std::all_of(fields.begin(), fields.end(), [](std::string_view field) { return parse_number(field); });
}

bool missing(std::string_view field) {
  return field.empty() || field == "?" || field == "NA" || field == "NaN" || field == "nan";
}

// In a column of numbers 1 and 1.0 are one value: the shortest way to write it is taken for all.
void write_alike(std::vector<std::string>& column) {
  std::map<double, std::string> shortest;
  for (const std::string& field : column) {
    if (missing(field)) continue;
    const auto number = parse_number(field);
    if (!number || !std::isfinite(*number)) return;
    const auto [at, is_new] = shortest.emplace(*number, field);
    if (!is_new && field.size() < at->second.size()) at->second = field;
  }
  for (std::string& field : column)
    if (!missing(field)) field = shortest.at(*parse_number(field));
}

class Lines {
 public:
  Lines(std::string_view text, const std::string& file) : text_(text), file_(file) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
    const std::string_view first = text_.substr(0, text_.find('\n'));
    for (const char c : {',', ';', '\t', ' '})
      if (trimmed(first).find(c) != std::string_view::npos) {
        separator_ = c;
        break;
      }
  }

  long line() const { return line_; }

  // The fields of the next line that is not empty; false at the end.
  bool next(std::vector<std::string>& fields) {
    std::string_view line;
    while (trimmed(line).empty()) {
      if (text_.empty()) return false;
      const std::size_t end = text_.find('\n');
      line = text_.substr(0, end);
      text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
      ++line_;
    }
    split(trimmed(line), line.find_first_not_of(" \t\r"), fields);
    return true;
  }

 private:
  void split(std::string_view line, std::size_t offset, std::vector<std::string>& fields) const {
    fields.clear();
    for (std::size_t at = 0; at <= line.size();) {
      if (separator_ == ' ') at = std::min(line.find_first_not_of(" \t", at), line.size());
      if (at < line.size() && line[at] == '"') {
        at = quoted(line, at, offset, fields);
      } else {
        const std::size_t end =
            std::min(separator_ == ' ' ? line.find_first_of(" \t", at) : line.find(separator_, at), line.size());
        fields.emplace_back(trimmed(line.substr(at, end - at)));
        at = end;
      }
      if (at == line.size()) return;
      ++at;
    }
  }

  // Reads the field that opens with a quote; returns where it ends.
  std::size_t quoted(std::string_view line, std::size_t at, std::size_t offset,
                     std::vector<std::string>& fields) const {
    const long column = static_cast<long>(at + offset) + 1;
    std::string field;
    for (++at; at < line.size(); ++at) {
      if (line[at] == '"' && !line.substr(at).starts_with("\"\"")) break;
      at += line[at] == '"' ? 1 : 0;
      field += line[at];
    }
    if (at == line.size())
      throw DataError(file_, line_, column, "a quoted field is not closed before the end of the line",
                      "add the missing quote");
    fields.push_back(std::move(field));
    ++at;
    if (at < line.size() && line[at] != separator_ && !(separator_ == ' ' && line[at] == '\t'))
      throw DataError(file_, line_, static_cast<long>(at + offset) + 1,
                      fmt::format("found '{}' after a closing quote", line[at]),
                      "double the quotes inside a quoted field");
    return at;
  }

  std::string_view text_;
  const std::string& file_;
  char separator_ = ',';
  long line_ = 0;
};

void check_names(const Table& table, long line) {
  for (std::size_t c = 0; c < table.names.size(); ++c) {
    if (table.names[c].empty())
      throw DataError(table.file, line, 0, fmt::format("column {} has no name", c + 1),
                      "the first line names the columns, as in x,y,z");
    if (std::count(table.names.begin(), table.names.end(), table.names[c]) > 1)
      throw DataError(table.file, line, 0, fmt::format("the header names '{}' twice", table.names[c]),
                      "give every column a name of its own");
  }
  if (std::all_of(table.names.begin(), table.names.end(),
                  [](const std::string& name) { return parse_number(name).has_value(); }))
    throw DataError(table.file, line, 1,
                    fmt::format("expected the names of the columns, found the number {}", table.names[0]),
                    "add a first line such as x,y,z");
}

}  // namespace

Table parse_table(std::string_view text, const std::string& file) {
  Table table;
  table.file = file;
  Lines lines(text, file);
  if (!lines.next(table.names))
    throw DataError(file, 0, 0, "the file is empty", "the first line names the columns, each further line is a row");
  check_names(table, lines.line());
  const std::size_t width = table.names.size();
  table.columns.resize(width);
  for (std::vector<std::string> fields; lines.next(fields);) {
    if (fields.size() != width)
      throw DataError(file, lines.line(), 1, fmt::format("found {} fields, the header has {}", fields.size(), width),
                      "every line needs as many fields as the header");
    for (std::size_t c = 0; c < width; ++c) table.columns[c].push_back(std::move(fields[c]));
    table.lines.push_back(lines.line());
  }
  if (table.lines.empty()) throw DataError(file, 0, 0, "the file has a header but no rows");
  for (auto& column : table.columns) write_alike(column);
  return table;
}

std::optional<std::string> read_bytes(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  // To copy nothing at all counts as a failure, so an empty file is not copied.
  if (stream.peek() != std::ifstream::traits_type::eof()) text << stream.rdbuf();
  if (!stream.is_open() || stream.bad() || !text) return std::nullopt;
  return std::move(text).str();
}

Table read_table(const std::string& file) {
  const auto bytes = read_bytes(file);
  if (!bytes) throw IoError("cannot read " + file, "give the path of a CSV file that exists");
  if (bytes->starts_with("\x1f\x8b"))
    throw DataError(file, 0, 0, "the file is packed with gzip",
                    "unpack it, or give it a name in .gz: the command line and Python unpack such files");
  return parse_table(*bytes, file);
}

Table Table::select(const std::vector<std::string>& wanted) const {
  Table part{file, {}, {}, lines};
  for (const std::string& name : wanted) {
    auto at = static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (at == names.size()) {
      const auto number = parse_number(name);
      if (!number || *number != std::floor(*number) || *number < 0 || *number >= static_cast<double>(names.size())) {
        const std::string near = nearest(name, names);
        throw InvalidArgument(fmt::format("{} has no column '{}', it has {}", file, name, join(names)),
                              near.empty() ? fmt::format("give names, or numbers from 0 to {}", names.size() - 1)
                                           : fmt::format("did you mean '{}'?", near));
      }
      at = static_cast<std::size_t>(*number);
    }
    if (std::find(part.names.begin(), part.names.end(), names[at]) != part.names.end())
      throw InvalidArgument(fmt::format("column '{}' is asked for twice", names[at]));
    part.names.push_back(names[at]);
    part.columns.push_back(columns[at]);
  }
  return part;
}

void Table::keep(Index count) {
  if (count < 1 || count > rows())
    throw InvalidArgument(fmt::format("{} has {} rows, {} of them were asked for", file, rows(), count));
  lines.resize(static_cast<std::size_t>(count));
  for (auto& column : columns) column.resize(static_cast<std::size_t>(count));
}

void Table::require_complete() const {
  for (std::size_t r = 0; r < lines.size(); ++r)
    for (std::size_t c = 0; c < columns.size(); ++c)
      if (missing(columns[c][r]))
        throw DataError(file, lines[r], 0, fmt::format("column '{}' has no value here", names[c]),
                        "leave such rows out (missing=drop), fill in the value, or leave the column out");
}

Index Table::drop_incomplete() {
  const Index before = rows();
  std::size_t kept = 0;
  for (std::size_t r = 0; r < lines.size(); ++r) {
    if (std::any_of(columns.begin(), columns.end(), [&](const auto& column) { return missing(column[r]); })) continue;
    lines[kept] = lines[r];
    for (auto& column : columns) std::swap(column[kept], column[r]);
    ++kept;
  }
  lines.resize(kept);
  for (auto& column : columns) column.resize(kept);
  if (kept == 0) throw DataError(file, 0, 0, "every row lacks a value", "choose fewer columns");
  return before - rows();
}

Matrix Table::numbers() const {
  Matrix values({rows(), static_cast<Index>(columns.size())});
  for (std::size_t c = 0; c < columns.size(); ++c)
    for (std::size_t r = 0; r < lines.size(); ++r) {
      const auto number = parse_number(columns[c][r]);
      if (!number || !std::isfinite(*number))
        throw DataError(file, lines[r], 0,
                        fmt::format("column '{}': expected a number, found '{}'", names[c], columns[c][r]),
                        "leave the column out, or use the chi-square test");
      values(static_cast<Index>(r), static_cast<Index>(c)) = *number;
    }
  return values;
}

std::vector<std::vector<std::int32_t>> Table::categories() const {
  std::vector<std::vector<std::int32_t>> coded;
  for (const auto& column : columns) {
    const std::set<std::string> different(column.begin(), column.end());
    const std::vector<std::string> sorted(different.begin(), different.end());
    coded.emplace_back();
    for (const std::string& field : column)
      coded.back().push_back(
          static_cast<std::int32_t>(std::lower_bound(sorted.begin(), sorted.end(), field) - sorted.begin()));
  }
  return coded;
}

std::vector<std::string> Table::discrete() const {
  std::vector<std::string> found;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const std::set<std::string_view> different(columns[c].begin(), columns[c].end());
    if ((different.size() > 1 && different.size() <= few_values) || !all_numbers(different)) found.push_back(names[c]);
  }
  return found;
}

std::vector<std::string> Table::scattered() const {
  std::vector<std::string> found;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const std::set<std::string_view> different(columns[c].begin(), columns[c].end());
    if (different.size() > most_different(lines.size(), all_numbers(different))) found.push_back(names[c]);
  }
  return found;
}

bool Table::numeric() const {
  return std::all_of(columns.begin(), columns.end(), [](const auto& column) { return all_numbers(column); });
}

}  // namespace saddle::analysis::causal_discovery
