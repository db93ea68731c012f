#include "csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "argument.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::cli {

namespace {

class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : text_(text), file_(file) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);  // the byte order mark that spreadsheets write
  }

  bool done() const { return at_ == text_.size(); }

  CsvRow row() {
    CsvRow row;
    while (true) {
      CsvField& field = row.emplace_back(CsvField{"", line_, column()});
      field.text = !done() && text_[at_] == '"' ? quoted() : bare();
      if (done()) return row;
      const char next = text_[at_++];
      if (next == ',') continue;
      if (next == '\r') ++at_;  // bare() and quoted() let \r end a field only before \n
      ++line_;
      line_start_ = at_;
      return row;
    }
  }

 private:
  long column() const { return static_cast<long>(at_ - line_start_) + 1; }
  [[noreturn]] void fail(long line, long column, const std::string& message, const std::string& hint) const {
    throw DataError(file_, line, column, message, hint);
  }
  bool at_end_of_field() const {
    return done() || text_[at_] == ',' || text_[at_] == '\n' || text_.substr(at_).starts_with("\r\n");
  }

  std::string bare() {
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
    return std::string(text_.substr(start, at_ - start));
  }

  std::string quoted() {
    const long line = line_, start = column();
    std::string field;
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
           fmt::format("found '{}' after a closing quote, expected a comma or the end of the line", text_[at_]),
           "double the quotes inside a quoted field");
    return field;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0, line_start_ = 0;
  long line_ = 1;
};

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

void check_header(const CsvTable& table, const CsvRow& header) {
  const auto is_number = [](const std::string& name) { return parse_number(name).has_value(); };
  if (std::all_of(table.header.begin(), table.header.end(), is_number))
    throw DataError(table.file, 1, 1,
                    fmt::format("expected the names of the columns, found the number {}", table.header[0]),
                    "add a first line such as x1,x2,y");
  for (std::size_t c = 0; c < header.size(); ++c) {
    const std::string& name = table.header[c];
    if (name.empty())
      throw DataError(table.file, header[c].line, header[c].column, fmt::format("column {} has no name", c + 1),
                      "the first line names the columns, as in x1,x2,y");
    if (std::count(table.header.begin(), table.header.end(), name) > 1)
      throw DataError(table.file, header[c].line, header[c].column, fmt::format("the header names '{}' twice", name),
                      "give every column a name of its own");
  }
}

}  // namespace

std::size_t CsvTable::column(const std::string& name) const {
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
  Reader reader(text, file);
  if (reader.done())
    throw DataError(file, 0, 0, "the file is empty", "the first line names the columns, each further line is a record");
  const CsvRow header = reader.row();
  for (const CsvField& field : header) table.header.push_back(trimmed(field.text));
  check_header(table, header);
  while (!reader.done()) {
    CsvRow row = reader.row();
    if (row.size() == 1 && row[0].text.empty() && reader.done()) break;  // an empty line at the end
    if (row.size() != table.header.size())
      throw DataError(file, row[0].line, 1,
                      fmt::format("found {} fields, the header has {}", row.size(), table.header.size()),
                      "every line needs as many fields as the header; quote fields that hold commas");
    table.rows.push_back(std::move(row));
  }
  if (table.rows.empty()) throw DataError(file, 0, 0, "the file has a header but no records");
  return table;
}

CsvTable read_csv(const std::string& file) { return parse_csv(read_text(file), file == "-" ? "stdin" : file); }

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace saddle::cli
