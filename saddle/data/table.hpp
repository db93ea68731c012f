// Tables in CSV files. A row is a series with one step per column, or, if a column names the series, one step of it.
#pragma once

#include <optional>

#include "saddle/base/error.hpp"
#include "saddle/data/contents.hpp"
#include "saddle/data/dataset.hpp"
#include "saddle/data/missing.hpp"

namespace saddle::data {

struct TableOptions {
  std::string target;                  // column with the class labels; empty: the last
  std::vector<std::string> leave_out;  // columns that are not read
  std::string series_id, time;         // of long tables: rows with the same id are one series, in the order of time
  Missing missing = Missing::interpolate;
  std::vector<std::string> header;             // of a file that has none
  Index skip_lines = 0;                        // before the header, or the first record
  std::string label_end = {};                  // cut off the labels of a file that writes them so
  const Description* like = nullptr;           // the training split's; without, columns and classes are this file's
  bool labels_required = true;                 // else the target may be missing, as column or as value
  std::vector<DataError>* problems = nullptr;  // collects what is wrong with single rows instead of throwing it
};

// The channels of a step are the number, 1 if the value is missing (only if some value of the table is), and one
// channel for every category of every column. A column is one of numbers if all its values are. A category that the
// training split does not have gives zeros, and is noted. Values that are missing become 0.
DatasetPtr read_table(const ContentsPtr& contents, Description description, const TableOptions& options);

// Columns other than id, time and target are numbers and become channels; the target is the same in all rows of an id.
DatasetPtr read_long_table(const ContentsPtr& contents, Description description, const TableOptions& options);

}  // namespace saddle::data
