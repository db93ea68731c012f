// Tables of numbers in CSV files, read strictly: a header row, one record per line, fields quoted where needed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "saddle/base/view.hpp"

namespace saddle::cli {

struct CsvField {
  std::string text;
  long line = 0, column = 0;  // where it starts in the file, from 1
};
using CsvRow = std::vector<CsvField>;

struct CsvTable {
  std::string file;
  std::vector<std::string> header;
  std::vector<CsvRow> rows;  // each with as many fields as the header

  // The position of a column given by name, or by number from 1 if no column has that name. Throws InvalidArgument.
  std::size_t column(const std::string& name) const;
  // The chosen columns as numbers [rows, columns]. Throws DataError at the first field that is no finite number.
  Matrix numbers(const std::vector<std::size_t>& columns) const;
};

// `file` stands for the text in messages. Throws DataError with line and column.
CsvTable parse_csv(std::string_view text, const std::string& file);
// The file, or stdin for "-".
CsvTable read_csv(const std::string& file);

// The field as it must stand in a file: quoted if it holds a comma, a quote or a line end.
std::string csv_field(const std::string& text);

}  // namespace saddle::cli
