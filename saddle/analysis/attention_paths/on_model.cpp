// What the theory says about a trained model, as an analysis.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "saddle/analysis/attention_paths/report_internal.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis::attention_paths {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t shown_samples = 20;

std::string class_name(const ProbedModel& model, Index label) {
  const auto at = static_cast<std::size_t>(label);
  return label >= 0 && at < model.classes.size() ? model.classes[at] : std::to_string(label);
}

Json list_of(const Vector& values) { return std::vector<double>(values.begin(), values.end()); }

// What the theory predicts for the test samples: the class with the largest mean, at finite and at infinite width.
void add_predictions(const ProbedModel& model, const ModelTheory& theory, Result& result, Json& document) {
  const Probe& test = model.probe("test");
  Table table{"Predictions for test samples",
              {"sample", "class", "finite width", "mean", "deviation", "infinite width", "mean", "deviation"},
              {}};
  for (std::size_t i = 0; i < std::min(test.labels.size(), shown_samples); ++i) {
    const auto at = static_cast<Index>(i);
    const Index sample = i < test.samples.size() ? test.samples[i] : at;
    std::vector<std::string> fields{std::to_string(sample),
                                    test.labels[i] < 0 ? "unknown" : class_name(model, test.labels[i])};
    for (const auto* of_classes : {&theory.finite, &theory.infinite}) {
      std::size_t best = 0;
      for (std::size_t c = 1; c < of_classes->size(); ++c)
        if ((*of_classes)[c].mean(at) > (*of_classes)[best].mean(at)) best = c;
      const Prediction& own = (*of_classes)[best];
      fields.push_back(class_name(model, theory.classes[best]));
      fields.push_back(fmt::format("{:.3f}", own.mean(at)));
      fields.push_back(fmt::format("{:.3f}", std::sqrt(std::max(0.0, own.variance(at)))));
    }
    table.rows.push_back(std::move(fields));
  }
  result.tables.push_back(std::move(table));
  document["predictions"] = Json::array();
  for (std::size_t c = 0; c < theory.classes.size(); ++c)
    document["predictions"].push_back({{"class", class_name(model, theory.classes[c])},
                                       {"mean", list_of(theory.finite[c].mean)},
                                       {"variance", list_of(theory.finite[c].variance)},
                                       {"mean_gp", list_of(theory.infinite[c].mean)},
                                       {"variance_gp", list_of(theory.infinite[c].variance)}});
  if (std::isnan(theory.accuracy)) return;
  result.findings.push_back(
      fmt::format("From {} training samples the theory predicts {:.1f} % of {} test samples right at this width, "
                  "{:.1f} % at infinite width.",
                  theory.xi.shape()[0], 100 * theory.accuracy, test.labels.size(), 100 * theory.accuracy_gp));
}

void add_unconverged(Index count, Result& result) {
  if (count > 0) result.findings.push_back(fmt::format("The minimum was not reached for {} classes.", count));
}

// All layers show their weights, and their heads make no more paths than these.
bool is_one_network(const Probe& train, Index most) {
  Index paths = 1;
  for (const ProbedLayer& layer : train.layers) {
    const Array<double, 4> maps = token_weights(train, layer);
    if (maps.empty() || paths * maps.shape()[1] > most) return false;
    paths *= maps.shape()[1];
  }
  return true;
}

// Scores of groups of layers.
Result on_groups(const ProbedModel& model, const ModelOptions& options) {
  const GroupedScores found = grouped_head_scores(model.probe("train"), options);
  Result result = score_report(found.scores);
  result.findings.push_back(fmt::format(
      "The heads make more than {} paths, or layers show no weights between tokens: groups of layers stand for "
      "themselves, from layers {} on, and the score of a head is relative to the largest of its group.",
      options.most_paths, fmt::join(found.groups, ", ")));
  add_unconverged(found.unconverged, result);
  result.json = Json{{"model", model.name},
                     {"groups", found.groups},
                     {"scores", json_of(found.scores)},
                     {"unconverged", found.unconverged}}
                    .dump();
  return result;
}

}  // namespace

Result on_model(const ProbedModel& model, Options& options) {
  ModelOptions own;
  own.temperature = options.number("temperature", own.temperature);
  own.width = options.integer("width", own.width);
  if (const std::string readout = options.text("readout", ""); !readout.empty()) own.readout = readout_from(readout);
  options.check();
  if (!is_one_network(model.probe("train"), own.most_paths)) return on_groups(model, own);
  const ModelTheory theory = theory_of(model, own);
  Json document{{"model", model.name}, {"heads", theory.prior.heads}};
  Result result = report({theory.prior, theory.xi, theory.y, theory.u, theory.scores}, document);
  if (!theory.finite.empty()) {
    add_predictions(model, theory, result, document);
    if (!std::isnan(theory.accuracy))
      result.figures = {{"accuracy of the theory", theory.accuracy}, {"at infinite width", theory.accuracy_gp}};
  }
  result.findings.emplace_back(
      "The theory knows attention only: no residual branches, no feed-forward networks, attention that does not change "
      "with the values.");
  add_unconverged(theory.unconverged, result);
  document["accuracy"] = theory.accuracy;
  document["accuracy_gp"] = theory.accuracy_gp;
  document["unconverged"] = theory.unconverged;
  result.json = document.dump();
  return result;
}

}  // namespace saddle::analysis::attention_paths
