// The page of saddle prune.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "saddle/analysis/result.hpp"

namespace saddle::cli {

// Scores of the heads of a layer, and which of them stay.
struct ScoredLayer {
  std::string attention;
  std::vector<double> scores;  // empty where all stay whatever happens
  std::vector<bool> stays;
};

struct SpreadPoint {
  double kept = 0, mean = 0, deviation = 0;  // in percent; deviation 0 where there is none
};
struct SpreadCurve {
  std::string by;
  std::vector<SpreadPoint> points;
};
// Accuracy on one set of samples.
struct CurvePanel {
  std::string judged;
  std::vector<SpreadCurve> curves;
};

struct PrunePage {
  std::string input, about;
  std::vector<std::string> findings;
  std::string score;                // name of the scores of `layers`
  std::vector<ScoredLayer> layers;  // drawn if there are any
  std::vector<CurvePanel> panels;   // drawn if there are any
  std::vector<analysis::Table> tables;
};

// One page of HTML that needs nothing else.
std::string html_of(const PrunePage& page);

}  // namespace saddle::cli
