// The sections of a page. Each adds its text, its plots and what it has to say in short.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "saddle/experiment/grid_internal.hpp"

namespace saddle::experiment {

struct Material {
  const Experiment& experiment;
  const Results& results;
  std::vector<Grid> grids;  // that have runs
};

struct Written {
  std::string markdown;
  std::vector<std::string> summary;                        // sentences for the top of the page
  std::vector<std::pair<std::string, std::string>> plots;  // file name, contents
};

void accuracy_section(const Material& material, Written& out);
void choice_section(const Material& material, Written& out);
void distance_section(const Material& material, Written& out);
void cost_section(const Material& material, Written& out);
void sweep_section(const Material& material, Written& out);

// Of the accuracy section. The table of a grid: data sets in rows; simple methods, published figures and ours in
// columns; notes under it.
std::string accuracy_table(const Material& material, const Grid& grid);
// What the choice of the epoch makes: a table and some sentences. honest: runs with the same settings, or null.
std::string protocol_text(const Material& material, const Grid& paper, const Grid* honest);
// Sentences on our figures under the paper protocol against those published for the same attention; empty without.
std::vector<std::string> published_sentences(const Material& material, const Grid& paper);

// Adds the plot and the line that shows it; `name` follows the name of the experiment.
void add_plot(const Material& material, Written& out, const std::string& name, const std::string& svg,
              const std::string& description);

}  // namespace saddle::experiment
