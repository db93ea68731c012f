#include "saddle/train/result.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <torch/version.h>

#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>

#include "saddle/base/cpu.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/log.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/data/csv.hpp"
#include "saddle/eval/metrics.hpp"
#include "saddle/nn/models/multiply_adds.hpp"
#include "saddle/report/report.hpp"
#include "saddle/train/inspect.hpp"
#include "saddle/train/pretraining_scores.hpp"
#include "saddle/version.hpp"

namespace saddle::train {

using Json = nlohmann::ordered_json;

namespace {

constexpr Index inspected = 12, head_distance_samples = 128;

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

Json whole_or_not(double value) { return value == std::floor(value) ? Json(static_cast<Index>(value)) : Json(value); }

Json test_json(const Evaluation& test, const std::vector<std::string>& classes) {
  const eval::Metrics metrics = eval::metrics_of(test.labels, test.predicted, static_cast<Index>(classes.size()));
  Json per_class = Json::array();
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const eval::ClassScores& scores = metrics.per_class[c];
    per_class.push_back({{"label", classes[c]},
                         {"precision", scores.precision},
                         {"recall", scores.recall},
                         {"f1", scores.f1},
                         {"support", scores.support}});
  }
  return {{"accuracy", test.accuracy},
          {"loss", test.loss},
          {"count", test.count},
          {"confusion", metrics.confusion},
          {"per_class", per_class}};
}

std::vector<Index> first_of(const std::vector<Index>& samples, Index count) {
  return {samples.begin(), samples.begin() + std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(count),
                                                                      static_cast<std::ptrdiff_t>(samples.size()))};
}

Json distances_json(const std::vector<nn::HeadDistance>& distances) {
  Json list = Json::array();
  for (std::size_t layer = 0; layer < distances.size(); ++layer)
    list.push_back({{"layer", layer},
                    {"mean", distances[layer].mean},
                    {"std", distances[layer].deviation},
                    {"norm", distances[layer].norm}});
  return list;
}

}  // namespace

double peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

void write_report(const run::Folder& folder) {
  try {
    folder.write("report.html", report::comparison_page(report::read_runs({folder.path().string()})));
  } catch (const IoError& error) {
    log(LogLevel::warn,
        fmt::format("no report.html: {}{}{}", error.what(), error.hint().empty() ? "" : "; ", error.hint()));
  }
}

Index parameter_count(const nn::Model& model) {
  Index count = 0;
  for (const Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

std::string environment_json(const DataOrigin& origin, const std::string& command, Index workers) {
  return Json{{"schema", "saddle.env/1"},
              {"version", saddle::version()},
              {"cpu", cpu().brand},
              {"isa", to_string(best_isa())},
              {"threads", threads()},
              {"workers", workers},
              {"torch", TORCH_VERSION},
              {"started", now_text()},
              {"command", command},
              {"data_files", origin.files},
              {"data_checksum", origin.checksum}}
      .dump(2);
}

std::string predictions_csv(const Evaluation& evaluation, const std::vector<std::string>& classes) {
  std::string text = "sample,label,predicted";
  for (const std::string& name : classes) text += "," + data::csv_field("p(" + name + ")");
  text += '\n';
  for (std::size_t i = 0; i < evaluation.samples.size(); ++i) {
    const Index label = evaluation.labels[i];
    text += fmt::format("{},{},{}", evaluation.samples[i],
                        label < 0 ? "" : data::csv_field(classes[static_cast<std::size_t>(label)]),
                        data::csv_field(classes[static_cast<std::size_t>(evaluation.predicted[i])]));
    for (std::size_t c = 0; c < classes.size(); ++c)
      text += fmt::format(",{:.6g}", evaluation.probabilities[i * classes.size() + c]);
    text += '\n';
  }
  return text;
}

void write_result(const run::Folder& folder, const Setup& setup, const Outcome& outcome, const data::DatasetPtr& test) {
  const Trained& trained = setup.trained;
  const data::Description& about = trained.data;
  const run::Settings& settings = setup.settings;
  Json attention = Json::array();
  for (const nn::AttentionOfLayer& layer : trained.model->attentions()) attention.push_back(layer.attention);
  const double samples =
      static_cast<double>(outcome.updates) * static_cast<double>(setup.split.train.size()) /
      std::ceil(static_cast<double>(setup.split.train.size()) / static_cast<double>(settings.train.batch));
  Json result{{"schema", "saddle.result/1"},
              {"data",
               {{"name", about.name},
                {"kind", data::to_string(about.kind)},
                {"classes", about.classes},
                {"train", setup.split.train.size()},
                {"validation", setup.split.validation.size()},
                {"test", outcome.test ? outcome.test->count : 0},
                {"channels", about.channels},
                {"length", trained.max_length}}},
              {"attention", attention},
              {"model", settings.model},
              {"options", settings.model_options},
              {"seed", settings.train.seed},
              {"protocol", settings.data.protocol},
              {"epochs", whole_or_not(outcome.epochs)},
              {"best_epoch", whole_or_not(outcome.best_epoch)},
              {"stopped", outcome.stopped}};
  if (outcome.validation)
    result["validation"] = {{"accuracy", outcome.validation->accuracy}, {"loss", outcome.validation->loss}};
  if (outcome.test) result["test"] = test_json(*outcome.test, about.classes);
  if (outcome.last) result["last"] = {{"accuracy", outcome.last->accuracy}, {"loss", outcome.last->loss}};
  if (test)
    if (const auto scores = pretraining_scores(trained, test)) result["pretraining"] = to_json(*scores);
  result["parameters"] = parameter_count(*trained.model);
  result["multiply_adds"] = nn::multiply_adds(*trained.model, about.kind == data::Kind::image ? 0 : trained.positions);
  result["train_seconds"] = outcome.train_seconds;
  result["train_samples_per_second"] = outcome.train_seconds > 0 ? samples / outcome.train_seconds : 0;
  if (outcome.test && outcome.test->seconds > 0)
    result["inference_samples_per_second"] = static_cast<double>(outcome.test->count) / outcome.test->seconds;
  result["peak_memory_bytes"] = peak_memory();
  result["threads"] = threads();
  result["workers"] = outcome.workers;
  result["precision"] = settings.train.precision;
  Json distances{{"train", distances_json(head_distances(trained, setup.train,
                                                         first_of(setup.split.train, head_distance_samples)))}};
  if (test)
    distances["test"] = distances_json(head_distances(trained, test, first_of(all_of(*test), head_distance_samples)));
  result["head_distance"] = distances;

  if (outcome.test) {
    folder.write("predictions.csv", predictions_csv(*outcome.test, about.classes));
    if (settings.train.inspect)
      folder.write("inspect.json",
                   inspect_json(trained, test, worth_inspecting(*outcome.test, inspected), *outcome.test).dump());
  }
  folder.write("result.json", result.dump(2));
  write_report(folder);
}

}  // namespace saddle::train
