// An experiment: which attentions are trained on which data, how, how often, and what its page shows. Written in TOML.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "saddle/base/view.hpp"

namespace saddle::experiment {

using Settings = std::vector<std::pair<std::string, std::string>>;  // of saddle train: "model.width", "64"

// A grid of runs that have everything but data, attention and seed in common.
struct Part {
  std::string name;    // "d64"
  std::string folder;  // of its runs: "uea/d64"; that of another experiment's part when it is made of the same runs
  std::string title;   // "Width 64, harness B"
  std::vector<std::string> data;        // as saddle train takes it
  std::vector<std::string> attentions;  // the first is the baseline; '*' in one stands for the chosen value
  std::vector<std::string> choices;     // values that '*' is chosen from: by validation accuracy, with the first seed
  std::vector<std::string> protocols;   // honest, paper
  Index seeds = 5;
  Settings settings;                              // of all runs
  Settings paper_settings;                        // of those under the protocol "paper"
  std::shared_ptr<const Part> chooser = nullptr;  // the part whose runs choose, if it is another one
};

// A figure of somebody else's, in per cent.
struct Published {
  std::string data, name;  // of the mechanism, as its authors call it
  std::string attention;   // ours that it is to be compared with; may be empty
  double accuracy = 0;
  std::string source;
};

// What a page can show.
enum class Section { accuracy, choice, distance, cost, sweep };

struct Experiment {
  std::string name, title;
  std::string question;              // one paragraph
  std::vector<std::string> remarks;  // paragraphs behind the tables: what a reader must know
  std::vector<Section> sections;
  std::vector<Part> parts;
  std::vector<Published> published;
};

// Throws DataError with line and column for what is missing, unknown or of the wrong type, also for attentions that do
// not parse.
Experiment read_experiment(const std::string& toml, const std::string& file);

// The part whose runs choose what '*' stands for: often the part itself.
const Part& chooser_of(const Part& part);

// '*' replaced by a value.
std::string with_choice(std::string attention, const std::string& value);

// Those that come with the program: uea, lra, fashion ..
std::vector<std::string> experiment_names();
// By name, or from a file. Throws InvalidArgument that lists the names.
Experiment find_experiment(const std::string& name_or_file);

}  // namespace saddle::experiment
