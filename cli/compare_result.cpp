#include "compare_result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::cli {

namespace {

using Json = nlohmann::ordered_json;

// Places in figures().
constexpr std::size_t accuracy = 0, rmse = 2;

struct Entry {
  const report::Run* run;
  Json result, options;
  std::string split;  // of a table, in words
};

std::string split_of(const report::Run& run) {
  std::ifstream in(run.folder / "result.json");
  const Json document = Json::parse(in, nullptr, false);
  const Json::json_pointer place("/data/split");
  return document.contains(place) && document[place].is_string() ? document[place].get<std::string>() : "";
}

std::optional<double> value_of(const Json& result, const Figure& figure) {
  const Json* at = &result;
  for (const std::string& key : figure.path) {
    if (!at->is_object() || !at->contains(key)) return {};
    at = &(*at)[key];
  }
  if (at->is_number()) return at->get<double>();
  if (!at->is_array() || at->empty()) return {};
  double sum = 0;
  for (const Json& layer : *at) sum += layer.at("mean").get<double>();
  return sum / static_cast<double>(at->size());
}

template <class T>
void add_new(std::vector<T>& list, const T& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

void refuse_repeated_cells(const std::vector<Entry>& entries) {
  std::map<std::tuple<std::string, std::string, std::string, Index>, const report::Run*> seen;
  for (const Entry& entry : entries) {
    const report::Run& run = *entry.run;
    const auto [at, is_new] = seen.try_emplace({run.data, run.protocol, run.label, run.seed}, &run);
    if (!is_new)
      throw InvalidArgument(fmt::format("two runs are {}, {}, seed {}: {} and {}", run.data, run.label, run.seed,
                                        at->second->name, run.name),
                            "name folders in which every seed stands once");
  }
}

ComparedAttention summarise(const std::string& label, const std::vector<const Entry*>& entries) {
  ComparedAttention row{label, {}, {}, {}};
  for (const Entry* entry : entries) row.seeds.push_back(entry->run->seed);
  std::sort(row.seeds.begin(), row.seeds.end());
  for (const Figure& figure : figures()) {
    std::vector<double> values;
    for (const Entry* entry : entries)
      if (const auto value = value_of(entry->result, figure)) values.push_back(*value);
    row.figures.push_back(values.empty() ? std::nullopt : std::optional(eval::spread(values)));
    // The same accuracies added up in another order must stay a tie, here and for those who test what is printed.
    if (row.figures.back() && figure.form == Figure::Form::share)
      row.figures.back()->mean = std::round(row.figures.back()->mean * 1e12) / 1e12;
  }
  return row;
}

// Score minus that of the baseline under the same seed.
std::optional<eval::Spread> paired_difference(const std::vector<const Entry*>& entries,
                                              const std::vector<const Entry*>& baseline, const Figure& score) {
  std::vector<double> differences;
  for (const Entry* entry : entries)
    for (const Entry* other : baseline)
      if (entry->run->seed == other->run->seed)
        differences.push_back(*value_of(entry->result, score) - *value_of(other->result, score));
  return differences.empty() ? std::nullopt : std::optional(eval::spread(differences));
}

// Of classes the accuracy, of numbers the error.
std::size_t score_of(const std::vector<const Entry*>& entries, const std::string& data) {
  const auto has = [](std::size_t figure) {
    return [figure](const Entry* entry) { return value_of(entry->result, figures()[figure]).has_value(); };
  };
  for (const std::size_t figure : {accuracy, rmse})
    if (std::all_of(entries.begin(), entries.end(), has(figure))) return figure;
  throw InvalidArgument(fmt::format("some runs on {} predict classes, others numbers", data),
                        "name folders with runs of one kind");
}

// What should be the same in all runs of a data set, or the comparison is of something else.
void note_differences(const std::vector<const Entry*>& entries, const std::string& data,
                      std::vector<std::string>& notes) {
  const auto differ = [&](const std::string& what, const auto& shown, const char* consequence = "") {
    std::set<std::string> values;
    for (const Entry* entry : entries)
      if (const std::string text = shown(*entry); !text.empty()) values.insert(text);
    if (values.size() > 1)
      notes.push_back(fmt::format("runs on {} differ in {}: {}{}", data, what, join(values), consequence));
  };
  const auto text_of = [](const Json& object, const std::string& key) {
    if (!object.contains(key)) return std::string();
    return object[key].is_number() ? format_number(object[key].get<double>()) : object[key].dump();
  };
  differ("the model", [](const Entry& entry) { return entry.run->model; });
  std::set<std::string> options;
  for (const Entry* entry : entries)
    for (const auto& [name, value] : entry->options.items()) options.insert(name);
  // The first three are what is compared and stand in the labels, the last follows from the samples that the seed
  // trains on.
  for (const char* name : {"attention", "last_attention", "time", "max_len"}) options.erase(name);
  for (const std::string& name : options)
    differ(fmt::format("{} of the model", name), [&](const Entry& entry) { return text_of(entry.options, name); });
  differ("precision", [](const Entry& entry) { return entry.run->precision; });
  differ(
      "threads", [&](const Entry& entry) { return text_of(entry.result, "threads"); }, "; rates are not comparable");
  differ("the split", [](const Entry& entry) { return entry.split; });
  for (const char* split : {"train", "test"})
    differ(fmt::format("{} samples", split),
           [&](const Entry& entry) { return text_of(entry.result.value("samples", Json::object()), split); });
  // Early stopping ends runs at different epochs as a matter of course.
  differ("epochs", [&](const Entry& entry) {
    return entry.result.value("stopped", "epochs") == "epochs" ? text_of(entry.result, "epochs") : "";
  });
}

// Mean accuracies of the data sets that have all of the attentions.
eval::Scores complete_scores(CompareResult& result) {
  eval::Scores scores;
  for (const ComparedData& data : result.data) {
    std::vector<double> row;
    for (const std::string& label : result.labels)
      for (const ComparedAttention& attention : data.attentions)
        if (attention.label == label) row.push_back(attention.figures[data.score]->mean);
    if (row.size() == result.labels.size()) {
      scores.push_back(std::move(row));
      result.ranked.push_back(data.data);
    } else {
      result.notes.push_back(fmt::format("{} is left out of the ranks: not every attention was run on it", data.data));
    }
  }
  return scores;
}

void add_statistics(CompareResult& result, eval::Posthoc posthoc, double alpha) {
  if (result.data.size() < 2 || result.labels.size() < 2) return;
  for (const ComparedData& data : result.data)
    if (data.protocol != result.data.front().protocol) {
      result.notes.emplace_back("there are no ranks: runs of two protocols are not comparable");
      return;
    }
  for (const ComparedData& data : result.data)
    if (data.score == rmse) {
      result.notes.push_back(fmt::format("there are no ranks: the errors of {} have a scale of their own", data.data));
      return;
    }
  const eval::Scores scores = complete_scores(result);
  if (scores.size() >= 2) result.statistics = eval::compare(scores, posthoc, alpha);
}

}  // namespace

const std::vector<Figure>& figures() {
  using Form = Figure::Form;
  static const std::vector<Figure> list{
      {"accuracy", "accuracy", Form::share, {"test", "accuracy"}},
      {"last_accuracy", "last epoch", Form::share, {"last", "accuracy"}},
      {"rmse", "RMSE", Form::number, {"test", "rmse"}},
      {"parameters", "parameters", Form::count, {"parameters"}},
      {"multiply_adds", "mult-adds", Form::count, {"multiply_adds"}},
      {"train_samples_per_second", "train /s", Form::rate, {"train_samples_per_second"}},
      {"inference_samples_per_second", "infer /s", Form::rate, {"inference_samples_per_second"}},
      {"train_seconds", "", Form::seconds, {"train_seconds"}},
      {"peak_memory_bytes", "memory", Form::bytes, {"peak_memory_bytes"}},
      {"head_distance", "head dist.", Form::number, {"head_distance", "test"}}};
  return list;
}

CompareResult compare_runs(const std::vector<report::Run>& runs, const std::vector<std::string>& order,
                           const std::string& baseline, eval::Posthoc posthoc, double alpha) {
  CompareResult result;
  std::vector<Entry> entries;
  for (const report::Run& run : runs) {
    if (run.finished)
      entries.push_back({&run, Json::parse(run.result), Json::parse(run.options), split_of(run)});
    else
      result.notes.push_back(fmt::format("{} is not finished and left out", run.name));
  }
  if (entries.empty()) throw InvalidArgument("no run is finished", "finish them with saddle train --resume");
  refuse_repeated_cells(entries);

  std::vector<std::pair<std::string, std::string>> groups;
  std::vector<std::string> present;
  for (const Entry& entry : entries) {
    add_new(groups, {entry.run->data, entry.run->protocol});
    add_new(present, entry.run->label);
  }
  for (const std::string& label : order)
    if (std::find(present.begin(), present.end(), label) != present.end()) add_new(result.labels, label);
  for (const std::string& label : present) add_new(result.labels, label);
  result.baseline = baseline.empty() ? result.labels.front() : baseline;
  if (std::find(present.begin(), present.end(), result.baseline) == present.end())
    throw InvalidArgument(fmt::format("--baseline '{}': no run has this attention, found {}", baseline, join(present)),
                          "give it as it is written here");

  for (const auto& [data, protocol] : groups) {
    std::map<std::string, std::vector<const Entry*>> by_label;
    std::vector<const Entry*> all;
    for (const Entry& entry : entries)
      if (entry.run->data == data && entry.run->protocol == protocol) {
        by_label[entry.run->label].push_back(&entry);
        all.push_back(&entry);
      }
    ComparedData group{data, protocol, score_of(all, data), {}};
    for (const std::string& label : result.labels) {
      const auto found = by_label.find(label);
      if (found == by_label.end()) continue;
      group.attentions.push_back(summarise(label, found->second));
      if (label != result.baseline)
        group.attentions.back().difference =
            paired_difference(found->second, by_label[result.baseline], figures()[group.score]);
    }
    note_differences(all, data, result.notes);
    result.data.push_back(std::move(group));
  }
  add_statistics(result, posthoc, alpha);
  return result;
}

Json statistics_json(const CompareResult& result) {
  if (!result.statistics) return nullptr;
  const eval::Comparison& found = *result.statistics;
  const bool nemenyi = found.posthoc == eval::Posthoc::nemenyi;
  Json ranks = Json::array(), groups = Json::array(), pairs = Json::array();
  for (std::size_t i = 0; i < result.labels.size(); ++i)
    ranks.push_back({{"name", result.labels[i]}, {"rank", found.ranks[i]}});
  for (const auto& clique : found.cliques) {
    Json names = Json::array();
    for (const std::size_t i : clique) names.push_back(result.labels[i]);
    groups.push_back(names);
  }
  for (const eval::PairResult& pair : found.pairs)
    pairs.push_back({{"a", result.labels[pair.a]},
                     {"b", result.labels[pair.b]},
                     {"p", pair.p},
                     {"holm", pair.adjusted},
                     {"win", pair.wins.win},
                     {"draw", pair.wins.draw},
                     {"loss", pair.wins.loss}});
  Json document{{"test", nemenyi ? "nemenyi" : "wilcoxon-holm"},
                {"alpha", found.alpha},
                {"data", result.ranked},
                {"ranks", ranks},
                {"cliques", groups},
                {"p_values", pairs}};
  if (found.friedman) {
    document["friedman_statistic"] = found.friedman->statistic;
    document["friedman_p"] = found.friedman->p;
  }
  if (found.critical_difference) document["critical_difference"] = *found.critical_difference;
  return document;
}

}  // namespace saddle::cli
