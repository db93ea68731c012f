// The runs of an experiment: trains those that are not there, and gathers what all of them found.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "compare_plan.hpp"
#include "saddle/experiment/results.hpp"

namespace saddle::cli {

struct RunOptions {
  std::string out;        // folder of the runs
  std::string committed;  // folder of committed results whose runs count as done; empty: none do
  std::string seeds;      // "0..4"; empty: as the experiment says
  double seconds = 0;     // after them nothing new is begun; 0: never
  Index jobs = 1;
  bool train = true, quiet = false;
};

class ExperimentRuns {
 public:
  explicit ExperimentRuns(const RunOptions& options) : options_(options) {}

  void run(const std::string& experiment, const experiment::Part& part);

  experiment::Results fresh;  // of all parts that were run
  int signal = 0;             // that ended the work, or 0
  bool late = false;          // the time was over before the cells were
  std::vector<std::string> failed;

 private:
  std::vector<Index> seeds_of(const experiment::Part& part) const;
  // The value of '*' per data set of a part: by its own runs, or by those of its chooser.
  std::map<std::string, std::string> choose(const std::string& experiment, const experiment::Part& user);
  void train(Plan plan);
  // Committed results of the runs of a part, under the part's own name: they may belong to another experiment's part
  // that is made of the same runs.
  experiment::Results committed_of(const std::string& experiment, const experiment::Part& part) const;

  RunOptions options_;
  experiment::Results committed_;  // of the part being run
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace saddle::cli
