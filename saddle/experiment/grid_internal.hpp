// The records of one part of an experiment under one protocol, by data set and attention.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "saddle/eval/statistics.hpp"
#include "saddle/experiment/results.hpp"

namespace saddle::experiment {

class Grid {
 public:
  using Cell = std::vector<const Record*>;  // by seed, every seed once

  Grid(const Part& part, std::string protocol, const Results& results);

  const Part& part() const { return *part_; }
  const std::string& protocol() const { return protocol_; }
  // Runs of an attention on a data set, both by number. Of '*' only runs with the value that was chosen for
  // the data set belong to the cell.
  const Cell& at(std::size_t data, std::size_t attention) const {
    return cells_[data * part_->attentions.size() + attention];
  }
  // The same by name; empty where the part has no such data set or attention.
  const Cell& of(const std::string& data, const std::string& attention) const;
  std::size_t runs() const;
  std::size_t planned() const;
  // Data sets of which any attention has runs; attentions that have runs on any data set.
  std::vector<std::size_t> data() const;
  std::vector<std::size_t> attentions() const;
  // "Width 64, harness B, honest protocol"
  std::string title() const;
  // Of a plot: "d64-honest"
  std::string file() const;

 private:
  const Part* part_;
  std::string protocol_;
  std::vector<Cell> cells_;
};

// Those that have any runs, by part and protocol.
std::vector<Grid> grids(const Experiment& experiment, const Results& results);

// The runs of every cell with seeds that all of them have: what means over seeds must be taken of to be compared.
std::vector<Grid::Cell> with_common_seeds(std::vector<Grid::Cell> cells);

// Of something about the runs of a cell; none without runs. Means are rounded so that equal ones are equal.
std::optional<eval::Spread> spread_of(const Grid::Cell& cell, const std::function<double(const Record&)>& value);
std::optional<eval::Spread> accuracy_of(const Grid::Cell& cell);
// Of the runs that have one.
std::optional<eval::Spread> validation_of(const Grid::Cell& cell);
// Accuracy of a minus that of b in points, over the seeds that both have.
std::optional<eval::Spread> paired_points(const Grid::Cell& a, const Grid::Cell& b);
// Standard error of a mean, none of a single value.
std::optional<double> standard_error(const eval::Spread& spread);
double median(std::vector<double> values);

// The word for a protocol: "honest protocol", "paper protocol (best test epoch)".
std::string protocol_name(const std::string& protocol);
// Letters, digits, '-', '_' and '.' alone, for names of files.
std::string file_name(std::string_view text);

}  // namespace saddle::experiment
