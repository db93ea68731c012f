// A model of a table with all it needs to meet rows again: columns, scale, and the rows it learned from, which are part
// of every input.
#pragma once

#include <filesystem>

#include "saddle/train/tabular/masks.hpp"
#include "saddle/train/trained.hpp"

namespace saddle::train::tabular {

struct TrainedTable {
  std::shared_ptr<nn::Model> model;
  std::string name;  // of the table
  Encoding encoding;
  run::TableSettings settings;
  Index batch = 0, seed = 0;
  std::vector<double> context;  // rows that trained or validated, [rows, columns]

  const data::Column& target() const { return encoding.columns.back(); }
  bool predicts_classes() const { return !target().categories.empty(); }
};

// The weights go in as they are given.
void write_trained_table(const std::filesystem::path& path, const TrainedTable& trained, const NamedTensors& weights);
// From the folder of a run (its best weights) or from a file. The model is in evaluation mode.
TrainedTable read_trained_table(const std::filesystem::path& path);
// Whether there is one.
bool holds_table(const std::filesystem::path& path);

// What a model says of rows.
struct Scores {
  std::vector<Index> rows;
  std::vector<double> truth, predicted;  // numbers, or those of classes; a truth that is not known is NaN
  std::vector<double> probabilities;     // of classes, [rows, classes]
  Index count = 0;                       // rows whose target is known
  double loss = 0;                // cross entropy, over classes that the model has; squared error on the model's scale
  double accuracy = 0, rmse = 0;  // of classes, where one that the model does not have is missed; of numbers
  double seconds = 0;
};

// Predictions of all columns [rows, sum of widths], batch after batch; NaN for rows that are in none.
Tensor outputs_of(const TrainedTable& trained, const Pass& pass, const std::vector<std::vector<Index>>& batches);

// The targets of rows, against `values` [rows, columns].
Scores score_targets(const TrainedTable& trained, const Tensor& outputs, const std::vector<double>& values,
                     const std::vector<Index>& rows);
// The error of a guess that knows no features: the mean of training targets, or their commonest class.
double floor_of(const TrainedTable& trained, const Scores& scores);

// Rows of a table together with those that the model learned from: all of these are in every batch, or a drawn part of
// them that fills three quarters of it, the same one each time. Targets that the table has are scored, and hidden; or,
// if they are known facts, seen where the model has learned to look at targets. Returns the outputs of the table's
// rows.
Tensor meet(const TrainedTable& trained, const data::WholeTable& table, bool targets_are_known);

// A number or the name of a class in words; empty if it is not known.
std::string target_text(const TrainedTable& trained, double value);
// sample,label,predicted and, of classes, one column of probabilities for each.
std::string predictions_csv(const TrainedTable& trained, const Scores& scores);

}  // namespace saddle::train::tabular
