#include "saddle/experiment/results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "saddle/base/error.hpp"
#include "saddle/report/checked_json_internal.hpp"

namespace saddle::experiment {

namespace {

namespace fs = std::filesystem;
using report::Field;
using report::Json;

constexpr const char* schema = "saddle.results/1";

Json distances_json(const std::vector<LayerDistance>& layers) {
  Json list = Json::array();
  for (const LayerDistance& layer : layers)
    list.push_back({report::rounded(layer.mean), report::rounded(layer.deviation), report::rounded(layer.norm)});
  return list;
}

std::vector<LayerDistance> distances_of(const Field& record, const std::string& key) {
  std::vector<LayerDistance> layers;
  if (const auto list = record.find(key))
    for (const Field& layer : list->items()) {
      const std::vector<Field> three = layer.items();
      if (three.size() != 3) layer.fail("expected the mean, the deviation and the mean norm");
      layers.push_back({three[0].number(), three[1].number(), three[2].number()});
    }
  return layers;
}

Json to_json(const Record& r) {
  Json json{{"part", r.part}, {"protocol", r.protocol}, {"data", r.data}, {"attention", r.attention}, {"seed", r.seed}};
  json["accuracy"] = report::rounded(r.accuracy);
  json["last"] = report::rounded(r.last);
  if (r.validation) json["validation"] = report::rounded(*r.validation);
  if (r.validation_loss) json["validation_loss"] = report::rounded(*r.validation_loss);
  json["epochs"] = r.epochs;
  json["best_epoch"] = r.best_epoch;
  json["train"] = r.train;
  json["test"] = r.test;
  json["length"] = r.length;
  json["width"] = r.width;
  json["parameters"] = r.parameters;
  json["multiply_adds"] = r.multiply_adds;
  json["train_seconds"] = report::rounded(r.train_seconds);
  json["train_rate"] = report::rounded(r.train_rate);
  json["inference_rate"] = report::rounded(r.inference_rate);
  json["memory"] = r.memory;
  json["threads"] = r.threads;
  json["precision"] = r.precision;
  json["train_distance"] = distances_json(r.train_distance);
  json["test_distance"] = distances_json(r.test_distance);
  json["started"] = r.started;
  json["version"] = r.version;
  json["cpu"] = r.cpu;
  json["isa"] = r.isa;
  return json;
}

// The share of `count` samples that five digits stand for: equal accuracies stay equal, wherever they were read.
double whole_share(double rounded, Index count) {
  const auto samples = static_cast<double>(count);
  const double share = std::round(rounded * samples) / samples;
  return std::abs(share - rounded) <= 1e-5 ? share : rounded;
}

Record record_from(const Field& json) {
  Record r;
  r.part = json.at("part").text();
  r.protocol = json.at("protocol").text();
  r.data = json.at("data").text();
  r.attention = json.at("attention").text();
  r.seed = json.at("seed").whole();
  r.test = json.at("test").whole();
  r.accuracy = whole_share(json.at("accuracy").number(), r.test);
  r.last = whole_share(json.at("last").number(), r.test);
  if (const auto found = json.find("validation")) r.validation = found->number();
  if (const auto found = json.find("validation_loss")) r.validation_loss = found->number();
  r.epochs = json.at("epochs").whole();
  r.best_epoch = json.at("best_epoch").whole();
  r.train = json.at("train").whole();
  r.length = json.at("length").whole();
  r.width = json.at("width").whole();
  r.parameters = json.at("parameters").number();
  r.multiply_adds = json.at("multiply_adds").number();
  r.train_seconds = json.at("train_seconds").number();
  r.train_rate = json.at("train_rate").number();
  r.inference_rate = json.at("inference_rate").number();
  r.memory = json.at("memory").number();
  r.threads = json.at("threads").whole();
  r.precision = json.at("precision").text();
  r.train_distance = distances_of(json, "train_distance");
  r.test_distance = distances_of(json, "test_distance");
  r.started = json.at("started").text();
  r.version = json.at("version").text();
  r.cpu = json.at("cpu").text();
  r.isa = json.at("isa").text();
  return r;
}

auto key_of(const Record& r) { return std::tie(r.part, r.protocol, r.data, r.attention, r.seed); }
auto key_of(const Floor& f) { return std::tie(f.data, f.name); }
auto key_of(const Choice& c) { return std::tie(c.part, c.data, c.value); }

template <class T>
void merge_list(std::vector<T>& into, const std::vector<T>& fresh) {
  for (const T& each : fresh) {
    const auto found = std::ranges::find_if(into, [&](const T& other) { return key_of(other) == key_of(each); });
    if (found == into.end()) {
      into.push_back(each);
    } else {
      *found = each;
    }
  }
}

// One value a line, so that what was added is what a reader of changes sees.
template <class T, class ToJson>
std::string lines(const std::vector<T>& list, const ToJson& json) {
  std::string text = "[";
  for (std::size_t i = 0; i < list.size(); ++i) text += (i == 0 ? "\n    " : ",\n    ") + json(list[i]).dump();
  return text + (list.empty() ? "]" : "\n  ]");
}

}  // namespace

Results read_results(const std::string& file) {
  Results results;
  if (!fs::exists(file)) return results;
  const Json document = report::parse_json(report::read_text(file), file);
  const Field root(document, file);
  if (root.at("schema").text() != schema)
    root.at("schema").fail(fmt::format("expected '{}', found '{}'", schema, root.at("schema").text()));
  results.experiment = root.at("experiment").text();
  for (const Field& floor : root.at("floors").items())
    results.floors.push_back({floor.at("data").text(), floor.at("name").text(), floor.at("accuracy").number()});
  for (const Field& choice : root.at("choices").items())
    results.choices.push_back({choice.at("part").text(), choice.at("data").text(), choice.at("value").text(),
                               choice.at("validation").number(), choice.at("validation_loss").number(),
                               choice.at("chosen").json() == true});
  for (const Field& record : root.at("runs").items()) results.records.push_back(record_from(record));
  return results;
}

std::string write_results(const Results& results) {
  const auto floor = [](const Floor& f) {
    return Json{{"data", f.data}, {"name", f.name}, {"accuracy", report::rounded(f.accuracy)}};
  };
  const auto choice = [](const Choice& c) {
    return Json{{"part", c.part},
                {"data", c.data},
                {"value", c.value},
                {"validation", report::rounded(c.validation)},
                {"validation_loss", report::rounded(c.validation_loss)},
                {"chosen", c.chosen}};
  };
  return fmt::format(
      "{{\n  \"schema\": \"{}\",\n  \"experiment\": {},\n  \"floors\": {},\n  \"choices\": {},\n  \"runs\": {}\n}}\n",
      schema, Json(results.experiment).dump(), lines(results.floors, floor), lines(results.choices, choice),
      lines(results.records, to_json));
}

void merge(Results& into, const Results& fresh) {
  if (into.experiment.empty()) into.experiment = fresh.experiment;
  merge_list(into.records, fresh.records);
  merge_list(into.floors, fresh.floors);
  merge_list(into.choices, fresh.choices);
}

Record read_record(const fs::path& folder, const std::string& part, const std::string& data,
                   const std::string& attention) {
  const std::string file = (folder / "result.json").string(), environment = (folder / "env.json").string();
  const Json document = report::parse_json(report::read_text(file), file);
  const Json surroundings = report::parse_json(report::read_text(environment), environment);
  const Field result(document, file), env(surroundings, environment);
  Record r;
  r.part = part;
  r.data = data;
  r.attention = attention;
  r.protocol = result.at("protocol").text();
  r.seed = result.at("seed").whole();
  r.accuracy = result.at("test").at("accuracy").number();
  r.last = result.at("last").at("accuracy").number();
  if (const auto validation = result.find("validation")) {
    r.validation = validation->at("accuracy").number();
    r.validation_loss = validation->at("loss").number();
  }
  r.epochs = std::llround(result.at("epochs").number());  // training by steps may end within one
  r.best_epoch = std::llround(result.at("best_epoch").number());
  r.train = result.at("data").at("train").whole();
  r.test = result.at("test").at("count").whole();
  if (const auto length = result.at("data").find("length")) r.length = length->whole();
  if (const auto width = result.at("options").find("width")) r.width = std::stoll(width->text());
  r.parameters = result.at("parameters").number();
  r.multiply_adds = result.at("multiply_adds").number();
  r.train_seconds = result.at("train_seconds").number();
  r.train_rate = result.at("train_samples_per_second").number();
  r.inference_rate = result.at("inference_samples_per_second").number();
  r.memory = result.at("peak_memory_bytes").number();
  r.threads = result.at("threads").whole();
  r.precision = result.at("precision").text();
  if (const auto distance = result.find("head_distance"))
    for (const auto& [split, into] : {std::pair("train", &r.train_distance), {"test", &r.test_distance}})
      if (const auto layers = distance->find(split))
        for (const Field& layer : layers->items())
          into->push_back({layer.at("mean").number(), layer.at("std").number(), layer.at("norm").number()});
  r.started = env.at("started").text();
  r.version = env.at("version").text();
  r.cpu = env.at("cpu").text();
  r.isa = env.at("isa").text();
  return r;
}

}  // namespace saddle::experiment
