// What a finished run on a table leaves behind: result.json, predictions.csv, report.html.
#pragma once

#include <optional>

#include "saddle/run/folder.hpp"
#include "saddle/train/tabular/setup.hpp"

namespace saddle::train::tabular {

struct Outcome {
  double epochs = 0, best_epoch = 0, train_seconds = 0;
  std::string stopped;
  Index updates = 0, rows_seen = 0;
  std::optional<Scores> validation, test;
};

// `setup.trained` holds the chosen weights. result.json comes last: with it the run counts as finished.
void write_result(const run::Folder& folder, const Setup& setup, const Outcome& outcome);

}  // namespace saddle::train::tabular
