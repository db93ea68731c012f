// From the name of a table, or of a file, to all its rows and which of them train and test.
#pragma once

#include "saddle/data/find.hpp"
#include "saddle/data/whole_table.hpp"

namespace saddle::data {

struct TableTask {
  WholeTable table;
  std::vector<Index> train, test;  // rows, ascending; those without a target are among them
  std::string split;               // how they were told apart, in words
};

struct TableChoice {
  std::vector<std::string> categories = {};  // columns whose numbers are names
  Target target = Target::by_values;
  Index split = 0;  // which one of the fixed splits, or of the parts that are held out in turn
};

// A CSV file, also gzip, with its test file beside it or in `where.test`, else a share of its rows is held out: of all
// classes alike, the same for every seed; adult, poker-hand .. by name; a folder with data.txt, numbers separated by
// blanks, the last one the target, and test_splits.txt, one line of row numbers for each split. Throws InvalidArgument
// for what is no table.
TableTask find_table(const std::string& name, const Where& where, const TableChoice& choice);

// A file of rows with the columns of a model, its target optional.
WholeTable open_rows(const std::string& file, const std::vector<Column>& columns, const Where& where);

// Does the folder of this name hold a table with fixed splits?
bool has_fixed_splits(const std::string& name, const Where& where);

}  // namespace saddle::data
