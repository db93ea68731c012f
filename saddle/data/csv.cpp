#include "saddle/data/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/data/number.hpp"

namespace saddle::data {

CsvReader::CsvReader(std::string_view text, const std::string& file, char delimiter)
    : text_(text), file_(file), delimiter_(delimiter) {
  if (text_.starts_with("\xef\xbb\xbf")) at_ = line_start_ = 3;  // the byte order mark that spreadsheets write
}

void CsvReader::next(CsvRow& row) {
  std::size_t count = 0;  // fields are used again, with their memory
  while (true) {
    if (count == row.size()) row.emplace_back();
    CsvField& field = row[count++];
    field.text.clear();
    field.line = line_;
    field.column = column();
    if (!done() && text_[at_] == '"')
      quoted(field.text);
    else
      bare(field.text);
    if (done()) break;
    const char next = text_[at_++];
    if (next == delimiter_) continue;
    if (next == '\r') ++at_;  // bare() and quoted() let \r end a field only before \n
    ++line_;
    line_start_ = at_;
    break;
  }
  row.resize(count);
}

void CsvReader::fail(long line, long column, const std::string& message, const std::string& hint) const {
  throw DataError(file_, line, column, message, hint);
}

bool CsvReader::at_end_of_field() const {
  return done() || text_[at_] == delimiter_ || text_[at_] == '\n' || text_.substr(at_).starts_with("\r\n");
}

void CsvReader::bare(std::string& field) {
  const std::size_t start = at_;
  while (!at_end_of_field()) {
    const char c = text_[at_];
    if (c == '"')
      fail(line_, column(), "found a quote inside a field that does not start with one",
           "quote the whole field and double the quotes inside it");
    if (c == '\r' || c == '\0')
      fail(line_, column(), fmt::format("found the control character 0x{:02x}", static_cast<unsigned>(c)),
           "save the table as plain text with lines that end in \\n or \\r\\n");
    ++at_;
  }
  field.assign(text_.substr(start, at_ - start));
}

void CsvReader::quoted(std::string& field) {
  const long line = line_, start = column();
  for (++at_;; ++at_) {
    if (done()) fail(line, start, "a quoted field is not closed before the end of the file", "add the missing quote");
    if (text_[at_] == '"') {
      if (!text_.substr(at_).starts_with("\"\"")) break;
      ++at_;
    } else if (text_[at_] == '\n') {
      ++line_;
      line_start_ = at_ + 1;
    }
    field += text_[at_];
  }
  ++at_;
  if (!at_end_of_field())
    fail(line_, column(),
         fmt::format("found '{}' after a closing quote, expected a {} or the end of the line", text_[at_],
                     delimiter_ == ','   ? "comma"
                     : delimiter_ == ';' ? "semicolon"
                                         : "tab"),
         "double the quotes inside a quoted field");
}

char csv_delimiter(std::string_view text) {
  std::array<std::pair<char, int>, 3> counts{{{',', 0}, {';', 0}, {'\t', 0}}};
  bool inside = false;
  for (const char c : text) {
    if (c == '"') inside = !inside;
    if (c == '\n' && !inside) break;
    for (auto& [delimiter, count] : counts)
      if (c == delimiter && !inside) ++count;
  }
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

std::vector<std::string> csv_header(const CsvRow& row, const std::string& file) {
  std::vector<std::string> header;
  for (const CsvField& field : row) header.emplace_back(trimmed(field.text));
  const auto is_number = [](const std::string& name) { return parse_number(name).has_value(); };
  if (std::all_of(header.begin(), header.end(), is_number))
    throw DataError(file, 1, 1, fmt::format("expected the names of the columns, found the number {}", header[0]),
                    "add a first line such as x1,x2,y");
  for (std::size_t c = 0; c < header.size(); ++c) {
    const std::string& name = header[c];
    if (name.empty())
      throw DataError(file, row[c].line, row[c].column, fmt::format("column {} has no name", c + 1),
                      "the first line names the columns, as in x1,x2,y");
    if (std::count(header.begin(), header.end(), name) > 1)
      throw DataError(file, row[c].line, row[c].column, fmt::format("the header names '{}' twice", name),
                      "give every column a name of its own");
  }
  return header;
}

std::size_t csv_column(const std::vector<std::string>& header, const std::string& name, const std::string& file) {
  const auto found = std::find(header.begin(), header.end(), name);
  if (found != header.end()) return static_cast<std::size_t>(found - header.begin());
  if (const auto number = parse_number(name);
      number && *number == std::floor(*number) && *number >= 1 && *number <= static_cast<double>(header.size()))
    return static_cast<std::size_t>(*number) - 1;
  const std::string close = nearest(name, header);
  throw InvalidArgument(fmt::format("{} has no column '{}', it has {}", file, name, join(header)),
                        close.empty() ? fmt::format("give names, or numbers from 1 to {}", header.size())
                                      : fmt::format("did you mean '{}'?", close));
}

void check_width(const CsvRow& row, std::size_t width, const std::string& file) {
  if (row.size() != width)
    throw DataError(file, row[0].line, 1, fmt::format("found {} fields, the header has {}", row.size(), width),
                    "every line needs as many fields as the header; quote fields that hold commas");
}

std::size_t CsvTable::column(const std::string& name) const { return csv_column(header, name, file); }

Matrix CsvTable::numbers(const std::vector<std::size_t>& columns) const {
  Matrix values({static_cast<Index>(rows.size()), static_cast<Index>(columns.size())});
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const CsvField& field = rows[r][columns[c]];
      const auto number = parse_number(trimmed(field.text));
      if (!number || !std::isfinite(*number))
        throw DataError(file, field.line, field.column,
                        fmt::format("column '{}': expected a number, found '{}'", header[columns[c]], field.text),
                        "fill in the value, remove the row, or leave the column out with --inputs and --targets");
      values(static_cast<Index>(r), static_cast<Index>(c)) = *number;
    }
  return values;
}

CsvTable parse_csv(std::string_view text, const std::string& file) {
  CsvTable table;
  table.file = file;
  CsvReader reader(text, file);
  if (reader.done())
    throw DataError(file, 0, 0, "the file is empty", "the first line names the columns, each further line is a record");
  CsvRow header;
  reader.next(header);
  table.header = csv_header(header, file);
  while (!reader.done()) {
    CsvRow row;
    reader.next(row);
    if (row.size() == 1 && row[0].text.empty() && reader.done()) break;  // an empty line at the end
    check_width(row, table.header.size(), file);
    table.rows.push_back(std::move(row));
  }
  if (table.rows.empty()) throw DataError(file, 0, 0, "the file has a header but no records");
  return table;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace saddle::data
