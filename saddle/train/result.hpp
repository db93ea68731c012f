// What a finished run leaves for people and programs: result.json, predictions.csv, inspect.json, report.html.
#pragma once

#include <optional>

#include "saddle/run/folder.hpp"
#include "saddle/train/evaluate.hpp"
#include "saddle/train/run_folder.hpp"
#include "saddle/train/setup.hpp"

namespace saddle::train {

struct Score {
  double accuracy = 0, loss = 0;
};

struct Outcome {
  double epochs = 0, best_epoch = 0;
  std::string stopped;
  Index updates = 0, workers = 1;
  double train_seconds = 0;
  std::optional<Score> validation;
  std::optional<Evaluation> test, last;
};

Index parameter_count(const nn::Model& model);

// Versions, machine, command, checksum of the data: env.json.
std::string environment_json(const DataOrigin& origin, const std::string& command, Index workers);
// Bytes, of this process.
double peak_memory();
// report.html out of the other files; where it cannot be made, a warning says why.
void write_report(const run::Folder& folder);

// `setup.trained` holds the chosen weights. result.json comes last: with it the run counts as finished.
void write_result(const run::Folder& folder, const Setup& setup, const Outcome& outcome, const data::DatasetPtr& test);

// sample,label,predicted and one column of probabilities per class.
std::string predictions_csv(const Evaluation& evaluation, const std::vector<std::string>& classes);

}  // namespace saddle::train
