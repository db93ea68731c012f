// The columns of a table as a model sees them: numbers on one scale, classes one by one, a channel for what is hidden.
#pragma once

#include <torch/types.h>

#include "saddle/data/whole_table.hpp"
#include "saddle/nn/models/npt.hpp"

namespace saddle::train::tabular {

using torch::Tensor;

struct Encoding {
  std::vector<data::Column> columns;    // the target last
  std::vector<double> mean, deviation;  // of each column of numbers; of others the commonest category, and 1

  // Over the values that are there, of features in rows where `features` is true and of the target where `targets` is.
  // A column whose values are all equal keeps the deviation 1. Throws InvalidArgument for a column without any value.
  static Encoding fit(const data::WholeTable& table, const std::vector<bool>& features,
                      const std::vector<bool>& targets);

  Index width() const { return static_cast<Index>(columns.size()); }
  std::vector<nn::NptColumn> model_columns() const;
  // values [rows, columns] as in a table -> [rows, sum of widths + 1]; what is missing or unknown is 0, its last
  // channel 1.
  Tensor encode(const std::vector<double>& values) const;
  // The number that a standardised one stands for.
  double number(double standardised, Index column) const;
};

}  // namespace saddle::train::tabular
