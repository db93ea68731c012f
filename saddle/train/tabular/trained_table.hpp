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
  double loss = 0;                       // mean over these: cross entropy, or squared error on the scale of the model
  double accuracy = 0, rmse = 0;         // of classes; of numbers, on their own scale
  double seconds = 0;
};

// Predictions of all columns [rows, sum of widths] for the rows of the pass that are part of the input, NaN for others.
Tensor outputs_of(const TrainedTable& trained, const Pass& pass, const std::vector<Part>& parts);

// The targets of rows, against `values` [rows, columns].
Scores score_targets(const TrainedTable& trained, const Tensor& outputs, const std::vector<double>& values,
                     const std::vector<Index>& rows);
// The error of a guess that knows no features: the mean of training targets, or their commonest class.
double floor_of(const TrainedTable& trained, const Scores& scores);

// Rows of a file together with those that the model learned from. Targets that the file has are scored, and hidden; or,
// if they are known facts, seen where the model has learned to look at targets.
struct Meeting {
  Tensor outputs;              // of the rows of the file
  std::vector<double> values;  // of them, [rows, columns]
};
Meeting meet(const TrainedTable& trained, const data::WholeTable& table, bool targets_are_known);

// sample,target,predicted and, of classes, one column of probabilities for each.
std::string predictions_csv(const TrainedTable& trained, const Scores& scores);

}  // namespace saddle::train::tabular
