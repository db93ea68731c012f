// What the scripts of the page show.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "saddle/base/error.hpp"
#include "saddle/report/checked_json_internal.hpp"
#include "saddle/report/page_parts_internal.hpp"
#include "saddle/version.hpp"

namespace saddle::report {

namespace {

// What else tells runs apart that have the same data and label: name of a setting -> value.
std::map<std::string, std::string> settings_of(const Run& run) {
  std::map<std::string, std::string> settings{{"model", run.model}, {"protocol", run.protocol}};
  if (!run.precision.empty()) settings["precision"] = run.precision;
  const Json options = Json::parse(run.options);
  for (const auto& [key, value] : options.items())
    settings[key] = value.is_string() ? value.get<std::string>() : value.dump();
  return settings;
}

// The label of every run. Seeds are averaged over runs of the same label, so finished runs that differ in more than the
// seed get their differences appended: "softmax [d_model=128]", "softmax [paper protocol]", "softmax [runs/again]".
std::vector<std::string> labels_of(const std::vector<Run>& runs) {
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> cells;
  for (std::size_t r = 0; r < runs.size(); ++r)
    if (runs[r].finished) cells[{runs[r].data, runs[r].label}].push_back(r);
  std::vector<std::string> labels;
  for (const Run& run : runs) labels.push_back(run.label);
  for (const auto& [cell, members] : cells) {
    std::map<std::string, std::set<std::string>> values;
    for (const std::size_t r : members)
      for (const auto& [key, value] : settings_of(runs[r])) values[key].insert(value);
    for (const std::size_t r : members) {
      std::vector<std::string> differences;
      for (const auto& [key, value] : settings_of(runs[r]))
        if (values[key].size() > 1 && value != "honest")
          differences.push_back(key == "protocol" ? "paper protocol" : key + "=" + value);
      if (!differences.empty()) labels[r] += fmt::format(" [{}]", fmt::join(differences, ", "));
    }
    // A seed counts once: what is still the same is told apart by its folder.
    std::map<std::pair<std::string, Index>, int> times;
    for (const std::size_t r : members) ++times[{labels[r], runs[r].seed}];
    for (const std::size_t r : members)
      if (times[{labels[r], runs[r].seed}] > 1) labels[r] += fmt::format(" [{}]", runs[r].name);
  }
  return labels;
}

// Inputs are shared: all attentions look at the same samples.
class Inputs {
 public:
  Index number_of(const Json& input) {
    const auto [entry, is_new] = numbers_.try_emplace(input.dump(), static_cast<Index>(inputs_.size()));
    if (is_new) inputs_.push_back(input);
    return entry->second;
  }
  Json take() { return std::move(inputs_); }

 private:
  std::map<std::string, Index> numbers_;
  Json inputs_ = Json::array();
};

// How many samples of each run are shown: as asked, or as many as fit.
std::size_t sample_count(const std::map<std::size_t, Json>& inspects, Index asked) {
  if (asked >= 0) return static_cast<std::size_t>(asked);
  constexpr std::size_t budget = 1'500'000;
  std::size_t count = 0, used = 0;
  for (bool more = true; more; ++count) {
    more = false;
    std::size_t next = used;
    for (const auto& [run, inspect] : inspects)
      if (count < inspect["samples"].size()) {
        more = true;
        next += inspect["samples"][count]["layers"].dump().size();
      }
    if (count > 0 && next > budget) return count;
    used = next;
  }
  return count;
}

// A mechanism without weights has no maps to show in its layer.
bool has_maps(const Json& inspect) {
  for (const Json& sample : inspect["samples"])
    for (const Json& layer : sample["layers"])
      if (layer["heads"].empty()) return false;
  return !inspect["samples"].empty();
}

// Run -> what is shown of its samples: of every data set and label the first run that has any.
std::map<std::size_t, Json> inspected(const std::vector<Run>& runs, const std::vector<std::string>& labels,
                                      Index asked) {
  std::map<std::size_t, Json> inspects;
  std::set<std::pair<std::string, std::string>> seen;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    if (runs[r].inspect == "null") continue;
    Json inspect = Json::parse(runs[r].inspect);
    if (has_maps(inspect) && seen.insert({runs[r].data, labels[r]}).second) inspects[r] = std::move(inspect);
  }
  const std::size_t count = sample_count(inspects, asked);
  for (auto& [run, inspect] : inspects) {
    Json& samples = inspect["samples"];
    inspect["total"] = samples.size();
    while (samples.size() > count) samples.erase(samples.size() - 1);
  }
  return inspects;
}

// Checked, because it may come from a file.
Json statistics_of(const std::string& text) {
  if (text.empty()) return nullptr;
  const std::string file = "statistics";
  const Json document = parse_json(text, file);
  const Field root(document, file);
  Json out{{"ranks", Json::array()}, {"cliques", Json::array()}, {"p_values", Json::array()}};
  std::set<std::string> names;
  const auto known = [&](const Field& name) {
    if (!names.contains(name.text())) name.fail("there is no rank of " + name.json().dump());
    return name.text();
  };
  for (const Field& entry : root.object().at("ranks").items()) {
    out["ranks"].push_back({{"name", entry.at("name").text()}, {"rank", entry.at("rank").number()}});
    if (!names.insert(entry.at("name").text()).second) entry.at("name").fail("this rank stands here twice");
  }
  if (const auto cliques = root.find("cliques"))
    for (const Field& clique : cliques->items()) {
      Json& list = out["cliques"].emplace_back(Json::array());
      for (const Field& name : clique.items()) list.push_back(known(name));
    }
  if (const auto pairs = root.find("p_values"))
    for (const Field& pair : pairs->items()) {
      Json& entry = out["p_values"].emplace_back(Json{{"a", known(pair.at("a"))}, {"b", known(pair.at("b"))}});
      for (const char* key : {"p", "holm"})
        if (const auto value = pair.find(key)) entry[key] = value->number();
    }
  for (const char* key : {"alpha", "friedman_p", "critical_difference"})
    if (const auto value = root.find(key)) out[key] = value->number();
  if (const auto test = root.find("test")) out["test"] = test->text();
  return out;
}

}  // namespace

std::string title_of(const std::vector<Run>& runs) {
  std::set<std::string> labels, data;
  for (const Run& run : runs) labels.insert(run.label), data.insert(run.data);
  return (labels.size() == 1 ? *labels.begin() : fmt::format("{} attentions", labels.size())) + " on " +
         (data.size() == 1 ? *data.begin() : fmt::format("{} data sets", data.size()));
}

std::string page_data(const std::vector<Run>& runs, const PageOptions& options) {
  const std::vector<std::string> labels = labels_of(runs);
  std::map<std::size_t, Json> inspects = inspected(runs, labels, options.samples);
  Inputs inputs;
  Json classes = Json::array(), list = Json::array();
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const Run& run = runs[r];
    const Json names = run.classes;
    const auto known = std::find(classes.begin(), classes.end(), names);
    const auto number = known - classes.begin();
    if (known == classes.end()) classes.push_back(names);
    Json inspect = nullptr;
    if (const auto found = inspects.find(r); found != inspects.end()) {
      inspect = std::move(found->second);
      for (Json& sample : inspect["samples"]) sample["input"] = inputs.number_of(sample["input"]);
    }
    list.push_back({{"name", run.name},
                    {"finished", run.finished},
                    {"data", run.data},
                    {"kind", run.kind},
                    {"classes", number},
                    {"label", labels[r]},
                    {"written", run.label},
                    {"attention", run.attention},
                    {"model", run.model},
                    {"precision", run.precision},
                    {"protocol", run.protocol},
                    {"seed", run.seed},
                    {"options", Json::parse(run.options)},
                    {"result", Json::parse(run.result)},
                    {"metrics", Json::parse(run.metrics)},
                    {"environment", Json::parse(run.environment)},
                    {"inspect", std::move(inspect)}});
  }
  const Json document{{"schema", "saddle.report/1"},
                      {"version", version()},
                      {"title", options.title.empty() ? title_of(runs) : options.title},
                      {"order", options.attentions},
                      {"classes", std::move(classes)},
                      {"inputs", inputs.take()},
                      {"runs", std::move(list)},
                      {"statistics", statistics_of(options.statistics)}};
  std::string text;
  for (const char c : document.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<')
      text += "\\u003c";  // nothing in the data can end the script element or open a comment in it
    else
      text += c;
  }
  return text;
}

}  // namespace saddle::report
