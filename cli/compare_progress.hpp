// How far a comparison is: a bar with the time left on a terminal, a line per cell elsewhere.
#pragma once

#include <string>

#include "compare_train.hpp"

namespace saddle::cli {

class CompareProgress {
 public:
  CompareProgress(std::size_t cells, bool quiet);
  ~CompareProgress();
  CompareProgress(const CompareProgress&) = delete;
  CompareProgress& operator=(const CompareProgress&) = delete;

  void begin(const Cell& cell, bool resumed);
  void end(const Cell& cell, const CellOutcome& outcome);
  void say(const std::string& text);
  // Draws the bar again; nothing where there is no terminal.
  void draw(std::size_t running);

 private:
  std::size_t cells_, ended_ = 0, trained_ = 0;
  bool quiet_, terminal_, drawn_ = false;
  double start_;
};

}  // namespace saddle::cli
