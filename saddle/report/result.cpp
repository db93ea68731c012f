// result.json: what a finished run found, and what it cost.
#include <fmt/format.h>

#include <algorithm>

#include "saddle/base/text.hpp"
#include "saddle/report/checked_json_internal.hpp"
#include "saddle/report/run_files_internal.hpp"

namespace saddle::report {

namespace {

// A share of samples.
double share(const Field& field) {
  const double value = field.number();
  if (!(value >= 0 && value <= 1)) field.fail(fmt::format("expected a share from 0 to 1, found {}", value));
  return value;
}

// Of classes the accuracy, of numbers the root of the mean squared error.
Json scores(const Field& field) {
  Json out = Json::object();
  if (const auto rmse = field.find("rmse")) {
    out["rmse"] = rmse->number();
  } else {
    out["accuracy"] = share(field.at("accuracy"));
  }
  if (const auto loss = field.find("loss")) out["loss"] = loss->number();
  return out;
}

// [C][C], rows: truth, columns: prediction.
Json confusion(const Field& field, std::size_t classes) {
  const auto rows = field.items();
  if (rows.size() != classes)
    field.fail(fmt::format("expected {} rows, one per class, found {}", classes, rows.size()));
  Json out = Json::array();
  for (const Field& row : rows) {
    const auto cells = row.items();
    if (cells.size() != classes)
      row.fail(fmt::format("expected {} columns, one per class, found {}", classes, cells.size()));
    Json& counts = out.emplace_back(Json::array());
    for (const Field& cell : cells) counts.push_back(cell.whole());
  }
  return out;
}

Json per_class(const Field& field, std::size_t classes) {
  const auto rows = field.items();
  if (rows.size() != classes) field.fail(fmt::format("expected {} classes, found {}", classes, rows.size()));
  Json out = Json::array();
  for (const Field& row : rows) {
    Json& entry = out.emplace_back(Json::object());
    // Precision of a class that was never predicted is 0/0: it may be missing.
    for (const char* name : {"precision", "recall", "f1"})
      if (const auto value = row.find(name)) entry[name] = rounded(share(*value));
    entry["support"] = row.at("support").whole();
  }
  return out;
}

Json head_distances(const Field& field) {
  Json out = Json::object();
  for (const char* split : {"train", "test"}) {
    const auto layers = field.find(split);
    if (!layers) continue;
    Json& list = out[split] = Json::array();
    for (const Field& layer : layers->items())
      list.push_back({{"layer", layer.at("layer").whole()},
                      {"mean", rounded(layer.at("mean").number())},
                      {"std", rounded(layer.at("std").number())}});
  }
  return out;
}

}  // namespace

std::string label_of(const std::vector<std::string>& attention) {
  std::vector<std::string> distinct;
  for (const std::string& layer : attention)
    if (std::find(distinct.begin(), distinct.end(), layer) == distinct.end()) distinct.push_back(layer);
  return join(distinct, " / ");
}

void read_result(const std::filesystem::path& file, Run& run) {
  const Json document = parse_json(read_text(file), file.string());
  const Field root(document, file.string());
  const std::string& schema = root.object().at("schema").text();
  if (schema != "saddle.result/1")
    root.at("schema").fail(fmt::format("expected saddle.result/1, found {}", root.at("schema").json().dump()));

  const Field data = root.at("data");
  run.data = data.at("name").text();
  run.kind = data.at("kind").text();
  run.classes = data.at("classes").texts();
  const bool numbers = data.find("predicts") && data.at("predicts").text() == "numbers";
  if (run.classes.empty() && !numbers) data.at("classes").fail("expected at least one class");
  run.attention = root.at("attention").texts();
  if (run.attention.empty()) root.at("attention").fail("expected the written form of each layer");
  run.label = label_of(run.attention);
  run.model = root.at("model").text();
  run.seed = root.at("seed").whole();
  run.protocol = root.at("protocol").text();
  if (run.protocol != "honest" && run.protocol != "paper")
    root.at("protocol").fail(fmt::format("expected honest or paper, found {}", root.at("protocol").json().dump()));
  if (const auto precision = root.find("precision")) run.precision = precision->text();
  if (const auto options = root.find("options")) {
    run.options = options->object().json().dump();
    // Models of events also differ by what they know of times.
    if (const auto time = options->find("time")) run.label += ", " + time->text();
  }

  Json out = Json::object();
  for (const char* key : {"train", "validation", "test", "channels", "length"})
    if (const auto value = data.find(key)) out["samples"][key] = value->whole();
  for (const char* key : {"parameters", "peak_memory_bytes", "threads"})
    if (const auto value = root.find(key)) out[key] = value->whole();
  for (const char* key : {"epochs", "best_epoch", "multiply_adds", "train_seconds", "train_samples_per_second",
                          "inference_samples_per_second"})
    if (const auto value = root.find(key)) out[key] = value->number();
  if (const auto stopped = root.find("stopped")) out["stopped"] = stopped->text();
  if (const auto validation = root.find("validation")) out["validation"] = scores(*validation);
  if (const auto last = root.find("last")) out["last"] = scores(*last);
  const Field test = root.at("test");
  out["test"] = scores(test);
  if (const auto count = test.find("count")) out["test"]["count"] = count->whole();
  if (const auto matrix = test.find("confusion")) out["test"]["confusion"] = confusion(*matrix, run.classes.size());
  if (const auto rows = test.find("per_class")) out["test"]["per_class"] = per_class(*rows, run.classes.size());
  if (const auto objectives = root.find("pretraining"))
    for (const char* name : {"masked_words", "matching"})
      if (const auto objective = objectives->find(name)) out["pretraining"][name] = scores(*objective);
  if (const auto distances = root.find("head_distance")) out["head_distance"] = head_distances(*distances);
  run.result = out.dump();
}

}  // namespace saddle::report
