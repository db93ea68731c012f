// What a run on a table starts from: rows that train, validate and test, their encoding, a fresh model.
#pragma once

#include "saddle/data/find_table.hpp"
#include "saddle/train/tabular/trained_table.hpp"

namespace saddle::train::tabular {

struct Setup {
  run::Settings settings;  // complete
  data::WholeTable table;  // without the targets of test rows
  std::string split;       // how test rows were told apart, in words
  std::vector<Part> parts;
  std::vector<double> test_targets;  // of all rows, NaN where a row does not test
  TrainedTable trained;

  std::vector<Index> rows_of(Part part) const;
};

data::TableChoice choice_of(const run::TableSettings& settings);

// Throws InvalidArgument for settings that tables do not have and for tables that are too small.
Setup set_up(run::Settings settings);

}  // namespace saddle::train::tabular
