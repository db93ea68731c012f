// Missing cells of a file, filled in by a model of tables.
#pragma once

#include "saddle/data/find.hpp"
#include "saddle/train/tabular/trained_table.hpp"

namespace saddle::train::tabular {

struct FilledCell {
  Index row = 0;
  std::string column, value;
  double probability = 0;  // of a class; 0 of a number
};

struct Imputation {
  std::string csv;  // the file as it was, separated by commas, but for the cells that were empty
  std::vector<FilledCell> cells;
  std::vector<std::string> notes;
};

// Columns that the model does not know stay as they are. Throws InvalidArgument if it was trained without hiding
// features.
Imputation impute(const TrainedTable& trained, const std::string& file, const data::Where& where);

}  // namespace saddle::train::tabular
