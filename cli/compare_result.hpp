// What a comparison found: per data set and attention mean, spread and count over the seeds; over data sets, ranks.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "saddle/eval/statistics.hpp"
#include "saddle/report/report.hpp"

namespace saddle::cli {

// A figure of a run that is averaged over seeds.
struct Figure {
  enum class Form { share, count, rate, bytes, seconds, number };
  std::string key, heading;  // without a heading it is no column of the table for people
  Form form;
  // Keys that lead to it in the result of a run; what stands in a list of layers is averaged over them.
  std::vector<std::string> path;
};
// Scores come first: accuracy at the chosen epoch and at the last one, and of numbers the error.
const std::vector<Figure>& figures();

struct ComparedAttention {
  std::string label;
  std::vector<Index> seeds;
  std::vector<std::optional<eval::Spread>> figures;  // as figures()
  std::optional<eval::Spread> difference;            // of the score to the baseline, over the seeds that both have
};

struct ComparedData {
  std::string data, protocol;
  std::size_t score;  // where it stands in figures()
  std::vector<ComparedAttention> attentions;
};

struct CompareResult {
  std::string baseline;
  std::vector<ComparedData> data;  // per data set and protocol: numbers of two protocols are not comparable
  // Over the data sets on which every attention was run, from their mean accuracies; columns as `labels`.
  std::vector<std::string> labels, ranked;  // attentions, data sets
  std::optional<eval::Comparison> statistics;
  std::vector<std::string> notes;  // sentences
};

// Runs that are not finished are left out, with a note. `order` are labels to show first, in this order; the baseline
// is a label, empty for the first. Throws InvalidArgument when nothing is finished, when two runs are the same cell,
// when runs on one data set predict classes and numbers, and for a baseline that no run has.
CompareResult compare_runs(const std::vector<report::Run>& runs, const std::vector<std::string>& order,
                           const std::string& baseline, eval::Posthoc posthoc, double alpha);

// The statistics as the report takes them; null without.
nlohmann::ordered_json statistics_json(const CompareResult& result);

}  // namespace saddle::cli
