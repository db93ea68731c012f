// CSV, read strictly: one record per line, fields quoted where needed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "saddle/base/view.hpp"

namespace saddle::data {

struct CsvField {
  std::string text;
  long line = 0, column = 0;  // where it starts in the file, from 1
};
using CsvRow = std::vector<CsvField>;

// Record after record. `file` stands for the text in messages and must live as long as the reader. Throws DataError
// with line and column.
class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& file, char delimiter = ',');

  bool done() const { return at_ == text_.size(); }
  void next(CsvRow& row);
  std::size_t offset() const { return at_; }  // of the next record in the text

 private:
  long column() const { return static_cast<long>(at_ - line_start_) + 1; }
  [[noreturn]] void fail(long line, long column, const std::string& message, const std::string& hint) const;
  bool at_end_of_field() const;
  void bare(std::string& field);
  void quoted(std::string& field);

  std::string_view text_;
  const std::string& file_;
  char delimiter_;
  std::size_t at_ = 0, line_start_ = 0;
  long line_ = 1;
};

// The one of comma, semicolon and tab that stands most often in the first line, quoted fields left out.
char csv_delimiter(std::string_view text);

struct CsvTable {
  std::string file;
  std::vector<std::string> header;
  std::vector<CsvRow> rows;  // each with as many fields as the header

  // The position of a column given by name, or by number from 1 if no column has that name. Throws InvalidArgument.
  std::size_t column(const std::string& name) const;
  // The chosen columns as numbers [rows, columns]. Throws DataError at the first field that is no finite number.
  Matrix numbers(const std::vector<std::size_t>& columns) const;
};

// Names of the columns: trimmed, checked to be names and all different. Throws DataError.
std::vector<std::string> csv_header(const CsvRow& row, const std::string& file);
// The position of a column in the header, by name or by number from 1. Throws InvalidArgument.
std::size_t csv_column(const std::vector<std::string>& header, const std::string& name, const std::string& file);
// Throws DataError if the row has not as many fields as the header.
void check_width(const CsvRow& row, std::size_t width, const std::string& file);

// A header row and at least one record.
CsvTable parse_csv(std::string_view text, const std::string& file);

// The field as it must stand in a file: quoted if it holds a comma, a quote or a line end.
std::string csv_field(const std::string& text);

}  // namespace saddle::data
