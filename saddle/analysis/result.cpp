#include "saddle/analysis/result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::analysis {

namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& value, const std::string& wanted) {
  throw InvalidArgument("option '" + name + "' takes " + wanted + ", found '" + value + "'");
}

}  // namespace

const std::string* Options::find(const std::string& name) {
  if (std::find(known_.begin(), known_.end(), name) == known_.end()) known_.push_back(name);
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

std::string Options::text(const std::string& name, const std::string& fallback) {
  const std::string* const value = find(name);
  return value != nullptr ? *value : fallback;
}

double Options::number(const std::string& name, double fallback) {
  const std::string* const value = find(name);
  if (value == nullptr) return fallback;
  const auto number = parse_number(*value);
  if (!number || !std::isfinite(*number)) refuse(name, *value, "a number");
  return *number;
}

Index Options::integer(const std::string& name, Index fallback) {
  const std::string* const value = find(name);
  if (value == nullptr) return fallback;
  Index number = 0;
  const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
  if (error != std::errc() || end != value->data() + value->size()) refuse(name, *value, "a whole number");
  return number;
}

bool Options::flag(const std::string& name, bool fallback) {
  const std::string* const value = find(name);
  if (value == nullptr) return fallback;
  if (*value != "true" && *value != "false") refuse(name, *value, "true or false");
  return *value == "true";
}

std::vector<std::string> Options::list(const std::string& name) {
  const std::string* const value = find(name);
  std::vector<std::string> pieces;
  if (value == nullptr) return pieces;
  std::size_t at = 0;
  for (std::size_t comma = value->find(','); comma != std::string::npos; comma = value->find(',', at)) {
    pieces.push_back(value->substr(at, comma - at));
    at = comma + 1;
  }
  pieces.push_back(value->substr(at));
  return pieces;
}

void Options::check() const {
  for (const auto& [name, value] : values_)
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
      const std::string close = nearest(name, known_);
      throw InvalidArgument("unknown option '" + name + "', known are " + (known_.empty() ? "none" : join(known_)),
                            close.empty() ? "" : "did you mean '" + close + "'?");
    }
}

namespace {

// The one with this title, made if there is none yet.
template <class T>
T& titled(std::vector<T>& list, const T& like) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const T& each) { return each.title == like.title; });
  if (found != list.end()) return *found;
  list.push_back(like);
  return list.back();
}

// One row for each input: every figure, and its share of that of the first input.
Table figure_table(const std::vector<std::pair<std::string, Result>>& results) {
  Table table{"Beside each other", {"input"}, {}};
  const auto& first = results.front().second.figures;
  for (const auto& [name, value] : first) {
    table.columns.push_back(name);
    table.columns.emplace_back("of the first");
  }
  for (const auto& [input, result] : results) {
    std::vector<std::string> row{input};
    for (const auto& [name, reference] : first) {
      const auto own = std::find_if(result.figures.begin(), result.figures.end(),
                                    [&](const auto& figure) { return figure.first == name; });
      const bool known = own != result.figures.end() && std::isfinite(own->second);
      row.push_back(known ? fmt::format("{:.4g}", own->second) : "");
      row.push_back(known && std::isfinite(reference) && reference != 0 ? fmt::format("{:.2f}", own->second / reference)
                                                                        : "");
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Maps of equal titles, which are those of one thing in several inputs, get the same shades for the same numbers.
void share_ranges(const std::vector<std::pair<std::string, Result>>& results, std::vector<Map>& maps) {
  std::map<std::string, std::pair<double, double>> ranges;
  for (const auto& [input, result] : results)
    for (const Map& map : result.maps) {
      const auto own = range_of(map);
      const auto [at, first] = ranges.emplace(map.title, own);
      if (!first) at->second = {std::min(at->second.first, own.first), std::max(at->second.second, own.second)};
    }
  std::size_t number = 0;
  for (const auto& [input, result] : results)
    for (const Map& map : result.maps) {
      auto [low, high] = ranges[map.title];
      if (map.from_zero && low < 0) low = -(high = std::max(high, -low));
      maps[number++].range = {low, high};
    }
}

}  // namespace

std::pair<double, double> range_of(const Map& map) {
  if (map.range) return *map.range;
  double low = map.from_zero ? 0 : std::numeric_limits<double>::infinity(),
         high = map.from_zero ? 0 : -std::numeric_limits<double>::infinity();
  for (const double value : map.values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (map.from_zero && low < 0) low = -(high = std::max(high, -low));
  return {low, high};
}

Result beside(const std::vector<std::pair<std::string, Result>>& results) {
  if (results.empty()) throw InvalidArgument("there is no result to show");
  if (results.size() == 1) return results.front().second;
  Result all;
  all.about = results.front().second.about;
  if (!results.front().second.figures.empty()) all.tables.push_back(figure_table(results));
  nlohmann::ordered_json inputs = nlohmann::ordered_json::array();
  for (const auto& [input, result] : results) {
    const std::string prefix = input + ": ";
    for (const std::string& finding : result.findings) all.findings.push_back(prefix + finding);
    for (const Table& own : result.tables) {
      Table empty{own.title, {"input"}, {}};
      empty.columns.insert(empty.columns.end(), own.columns.begin(), own.columns.end());
      Table& table = titled(all.tables, empty);
      for (auto row : own.rows) {
        row.insert(row.begin(), input);
        table.rows.push_back(std::move(row));
      }
    }
    for (const Chart& own : result.charts) {
      Chart empty = own;
      empty.curves.clear();
      Chart& chart = titled(all.charts, empty);
      for (Curve curve : own.curves) {
        curve.name = prefix + curve.name;
        chart.curves.push_back(std::move(curve));
      }
    }
    for (Map map : result.maps) {
      map.title = prefix + map.title;
      all.maps.push_back(std::move(map));
    }
    std::string file = input;
    std::replace_if(
        file.begin(), file.end(), [](char c) { return c == '/' || c == ' '; }, '_');
    for (Network network : result.networks) {
      network.title = prefix + network.title;
      if (!network.file.empty()) network.file = file + "_" + network.file;
      all.networks.push_back(std::move(network));
    }
    for (const auto& [name, contents] : result.files) all.files.emplace_back(file + "_" + name, contents);
    for (const auto& [name, value] : result.figures) all.figures.emplace_back(prefix + name, value);
    inputs.push_back(
        {{"input", input},
         {"result", result.json.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json::parse(result.json)}});
  }
  share_ranges(results, all.maps);
  all.json = nlohmann::ordered_json{{"inputs", inputs}}.dump();
  return all;
}

}  // namespace saddle::analysis
