#include "saddle/train/tabular/result.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "saddle/base/log.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/eval/metrics.hpp"
#include "saddle/train/result.hpp"

namespace saddle::train::tabular {

using Json = nlohmann::ordered_json;

namespace {

Json whole_or_not(double value) { return value == std::floor(value) ? Json(static_cast<Index>(value)) : Json(value); }

Json scores_json(const TrainedTable& trained, const Scores& scores) {
  if (trained.predicts_classes()) return {{"accuracy", scores.accuracy}, {"loss", scores.loss}};
  return {{"rmse", scores.rmse}, {"loss", scores.loss}};
}

Json test_json(const TrainedTable& trained, const Scores& scores) {
  Json test = scores_json(trained, scores);
  test["count"] = scores.count;
  test["floor"] = floor_of(trained, scores);
  const auto& classes = trained.target().categories;
  if (classes.empty()) return test;
  std::vector<Index> labels, predicted;
  for (std::size_t i = 0; i < scores.rows.size(); ++i) {
    if (std::isnan(scores.truth[i]) || scores.truth[i] == data::unknown_class) continue;
    labels.push_back(static_cast<Index>(scores.truth[i]));
    predicted.push_back(static_cast<Index>(scores.predicted[i]));
  }
  if (labels.empty()) return test;
  const eval::Metrics metrics = eval::metrics_of(labels, predicted, static_cast<Index>(classes.size()));
  test["confusion"] = metrics.confusion;
  for (std::size_t c = 0; c < classes.size(); ++c)
    test["per_class"].push_back({{"label", classes[c]},
                                 {"precision", metrics.per_class[c].precision},
                                 {"recall", metrics.per_class[c].recall},
                                 {"f1", metrics.per_class[c].f1},
                                 {"support", metrics.per_class[c].support}});
  return test;
}

}  // namespace

void write_result(const run::Folder& folder, const Setup& setup, const Outcome& outcome) {
  const TrainedTable& trained = setup.trained;
  const run::Settings& settings = setup.settings;
  Json attention = Json::array();
  for (const nn::AttentionOfLayer& layer : trained.model->attentions()) attention.push_back(layer.attention);
  Json result{{"schema", "saddle.result/1"},
              {"data",
               {{"name", trained.name},
                {"kind", "table"},
                {"target", trained.target().name},
                {"predicts", trained.predicts_classes() ? "classes" : "numbers"},
                {"classes", trained.target().categories},
                {"split", setup.split},
                {"train", setup.rows_of(Part::train).size()},
                {"validation", setup.rows_of(Part::validation).size()},
                {"test", outcome.test ? outcome.test->count : 0},
                {"columns", trained.encoding.width()}}},
              {"attention", attention},
              {"model", settings.model},
              {"options", settings.model_options},
              {"seed", settings.train.seed},
              {"protocol", settings.data.protocol},
              {"epochs", whole_or_not(outcome.epochs)},
              {"best_epoch", whole_or_not(outcome.best_epoch)},
              {"stopped", outcome.stopped}};
  if (outcome.validation) result["validation"] = scores_json(trained, *outcome.validation);
  if (outcome.test && outcome.test->count > 0) result["test"] = test_json(trained, *outcome.test);
  result["parameters"] = parameter_count(*trained.model);
  const Index rows = std::min<Index>(trained.batch, setup.table.rows);
  const auto* const npt = dynamic_cast<const nn::NptImpl*>(trained.model.get());
  result["multiply_adds"] = npt->multiply_adds(rows) / static_cast<double>(rows);
  result["train_seconds"] = outcome.train_seconds;
  result["train_samples_per_second"] =
      outcome.train_seconds > 0 ? static_cast<double>(outcome.rows_seen) / outcome.train_seconds : 0;
  result["peak_memory_bytes"] = peak_memory();
  result["threads"] = threads();
  result["workers"] = 1;
  result["precision"] = settings.train.precision;
  if (outcome.test) folder.write("predictions.csv", predictions_csv(trained, *outcome.test));
  folder.write("result.json", result.dump(2));
  if (result.contains("test"))
    write_report(folder);
  else
    log(LogLevel::info, "no report.html: no test row has a target");
}

}  // namespace saddle::train::tabular
