// Trains the cells of a comparison, each in a process of its own, several at once.
#pragma once

#include <string>
#include <vector>

#include "compare_plan.hpp"

namespace saddle::cli {

enum class CellState { skipped, trained, resumed, failed, stopped };
const char* to_string(CellState state);

struct CellOutcome {
  CellState state = CellState::stopped;  // stopped: interrupted, or not begun
  double seconds = 0;
  std::string problem;  // of a failed one, what the trainer said last
};

struct TrainOptions {
  std::string trainer;  // executable
  int jobs = 1;
  int threads = 1;  // of each
  bool quiet = false;
  double seconds = 0;  // after them running cells are stopped, with a checkpoint, and no others begun; 0: never
};

struct TrainResult {
  std::vector<CellOutcome> outcomes;  // of every cell
  int signal = 0;                     // that ended it, or 0
  bool late = false;                  // the time was over before the cells were
};

// $SADDLE_TRAINER, else this program.
std::string trainer();

// Finished cells are skipped, those with a checkpoint resumed. A cell that fails does not stop the others. SIGINT and
// SIGTERM are passed on as SIGINT, on which a trainer writes a checkpoint; then all are waited for.
TrainResult train_cells(const Plan& plan, const TrainOptions& options);

}  // namespace saddle::cli
