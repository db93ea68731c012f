// The page of an experiment: Markdown with tables and paragraphs, and plots as SVG, made from its results alone.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "saddle/experiment/results.hpp"

namespace saddle::experiment {

struct Page {
  std::string markdown;                                    // refers to the plots by file name
  std::vector<std::pair<std::string, std::string>> plots;  // file name "uea-d64-honest.svg", contents
};

Page page(const Experiment& experiment, const Results& results);

}  // namespace saddle::experiment
