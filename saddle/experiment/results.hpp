// What the runs of an experiment found: one small record per run, kept as a file that can be committed and added to.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "saddle/experiment/experiment.hpp"

namespace saddle::experiment {

// Between the outputs of heads, and the mean size of an output, which it is to be measured by.
struct LayerDistance {
  double mean = 0, deviation = 0, norm = 0;
};

struct Record {
  // The cell.
  std::string part, protocol, data, attention;  // as the experiment writes them, '*' replaced
  Index seed = 0;
  // What was found. Accuracies are shares, 0 to 1.
  double accuracy = 0;  // on the test split, at the chosen epoch
  double last = 0;      // on the test split, at the last epoch
  std::optional<double> validation, validation_loss;
  Index epochs = 0, best_epoch = 0;  // epochs that were asked for
  Index train = 0, test = 0;         // samples
  Index length = 0, width = 0;       // of a sample in tokens or steps; of the model
  double parameters = 0, multiply_adds = 0;
  double train_seconds = 0, train_rate = 0, inference_rate = 0;  // rates in samples per second
  double memory = 0;                                             // bytes, the peak of the process
  Index threads = 1;
  std::string precision;
  std::vector<LayerDistance> train_distance, test_distance;  // between heads, per layer
  // Where it comes from.
  std::string started, version, cpu, isa;
};

// A simple method's share of right answers on the test split; what it is stands in `name`.
struct Floor {
  std::string data, name;
  double accuracy = 0;
};

// A value chosen on validation accuracy: one line per value on offer.
struct Choice {
  std::string part, data, value;
  double validation = 0, validation_loss = 0;
  bool chosen = false;
};

struct Results {
  std::string experiment;
  std::vector<Record> records;
  std::vector<Floor> floors;
  std::vector<Choice> choices;
};

// One line per record. Reading throws DataError for broken files; a file that does not exist gives no records.
Results read_results(const std::string& file);
std::string write_results(const Results& results);

// Records, floors and choices of `fresh` replace those of the same cell.
void merge(Results& into, const Results& fresh);

// Of the finished run in a folder, which is this cell of the experiment.
Record read_record(const std::filesystem::path& folder, const std::string& part, const std::string& data,
                   const std::string& attention);

}  // namespace saddle::experiment
