// A table as a whole, for models that see all its rows at once: numbers and categories, any of which may be missing.
#pragma once

#include <string>
#include <vector>

#include "saddle/data/contents.hpp"
#include "saddle/data/dataset.hpp"
#include "saddle/data/table.hpp"

namespace saddle::data {

// In place of a category: the target has a class, but none that the column knows.
constexpr double unknown_class = -1;

// The target is the last column.
struct WholeTable {
  std::string name;
  std::vector<Column> columns;
  Index rows = 0;
  std::vector<double> values;  // [rows, columns]: a number, or that of a category; NaN where there is none
  std::vector<std::string> files = {};
  std::string checksum = {};
  std::vector<std::string> notes = {};

  Index width() const { return static_cast<Index>(columns.size()); }
  double at(Index row, Index column) const { return values[static_cast<std::size_t>(row * width() + column)]; }
  bool missing(Index row, Index column) const;
  const Column& target() const { return columns.back(); }
};

// What the target is.
enum class Target { by_values, classes, numbers };

struct WholeTableOptions {
  TableOptions table;                   // target, columns left out, header ..
  std::vector<std::string> categories;  // columns whose numbers are names
  Target target = Target::by_values;    // classes: text, or at most ten different whole numbers
};

// Throws DataError for fields that do not fit their column and for columns without a single value, InvalidArgument for
// columns that do not exist.
WholeTable read_whole_table(const ContentsPtr& contents, const std::string& name, const WholeTableOptions& options);

// Another file with columns of the same names, in any order; the target may be missing, as a column or as a value.
// Categories that the columns do not have count as missing, in the target as unknown_class, and are noted.
WholeTable read_whole_table_like(const ContentsPtr& contents, const std::string& name,
                                 const std::vector<Column>& columns, const TableOptions& options);

// Behind the rows of `first` those of `second`, which has the same columns.
WholeTable joined(WholeTable first, const WholeTable& second);

}  // namespace saddle::data
