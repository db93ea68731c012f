#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "saddle/experiment/grid_internal.hpp"

namespace saddle::experiment {

namespace {

// What the attention is called in the records of a data set; empty while a value is still to be chosen: runs that only
// serve the choice are no result.
std::string name_of(const Part& part, const std::string& data, const std::string& attention, const Results& results) {
  if (attention.find('*') == std::string::npos) return attention;
  for (const Choice& choice : results.choices)
    if (choice.chosen && choice.part == chooser_of(part).name && choice.data == data)
      return with_choice(attention, choice.value);
  return "";
}

}  // namespace

Grid::Grid(const Part& part, std::string protocol, const Results& results)
    : part_(&part), protocol_(std::move(protocol)), cells_(part.data.size() * part.attentions.size()) {
  std::size_t number = 0;
  for (const std::string& data : part.data)
    for (const std::string& attention : part.attentions) {
      const std::string name = name_of(part, data, attention, results);
      Cell& cell = cells_[number++];
      for (const Record& record : results.records) {
        if (record.part != part.name || record.protocol != protocol_ || record.data != data || record.attention != name)
          continue;
        const auto same = [&](const Record* other) { return other->seed == record.seed; };
        if (std::none_of(cell.begin(), cell.end(), same)) cell.push_back(&record);
      }
      std::sort(cell.begin(), cell.end(), [](const Record* a, const Record* b) { return a->seed < b->seed; });
    }
}

const Grid::Cell& Grid::of(const std::string& data, const std::string& attention) const {
  static const Cell none;
  const auto d = std::find(part_->data.begin(), part_->data.end(), data) - part_->data.begin();
  const auto a = std::find(part_->attentions.begin(), part_->attentions.end(), attention) - part_->attentions.begin();
  const auto row = static_cast<std::size_t>(d), column = static_cast<std::size_t>(a);
  return row < part_->data.size() && column < part_->attentions.size() ? at(row, column) : none;
}

std::size_t Grid::runs() const {
  std::size_t count = 0;
  for (const Cell& cell : cells_) count += cell.size();
  return count;
}

std::size_t Grid::planned() const { return cells_.size() * static_cast<std::size_t>(part_->seeds); }

std::vector<std::size_t> Grid::data() const {
  std::vector<std::size_t> list;
  for (std::size_t d = 0; d < part_->data.size(); ++d)
    for (std::size_t a = 0; a < part_->attentions.size(); ++a)
      if (!at(d, a).empty()) {
        list.push_back(d);
        break;
      }
  return list;
}

std::vector<std::size_t> Grid::attentions() const {
  std::vector<std::size_t> list;
  for (std::size_t a = 0; a < part_->attentions.size(); ++a)
    for (std::size_t d = 0; d < part_->data.size(); ++d)
      if (!at(d, a).empty()) {
        list.push_back(a);
        break;
      }
  return list;
}

std::string Grid::title() const { return part_->title + ", " + protocol_name(protocol_); }
std::string Grid::file() const { return file_name(part_->name + "-" + protocol_); }

std::vector<Grid> grids(const Experiment& experiment, const Results& results) {
  std::vector<Grid> list;
  for (const Part& part : experiment.parts)
    for (const std::string& protocol : part.protocols)
      if (Grid grid(part, protocol, results); grid.runs() > 0) list.push_back(std::move(grid));
  return list;
}

std::vector<Grid::Cell> with_common_seeds(std::vector<Grid::Cell> cells) {
  const std::vector<Grid::Cell> all = cells;
  for (Grid::Cell& cell : cells)
    std::erase_if(cell, [&](const Record* record) {
      const auto has_seed = [&](const Grid::Cell& other) {
        return std::any_of(other.begin(), other.end(), [&](const Record* run) { return run->seed == record->seed; });
      };
      return !std::all_of(all.begin(), all.end(), has_seed);
    });
  return cells;
}

std::optional<eval::Spread> spread_of(const Grid::Cell& cell, const std::function<double(const Record&)>& value) {
  if (cell.empty()) return {};
  std::vector<double> values;
  for (const Record* record : cell) values.push_back(value(*record));
  eval::Spread spread = eval::spread(values);
  spread.mean = std::round(spread.mean * 1e12) / 1e12;
  return spread;
}

std::optional<eval::Spread> accuracy_of(const Grid::Cell& cell) {
  return spread_of(cell, [](const Record& record) { return record.accuracy; });
}

std::optional<eval::Spread> validation_of(const Grid::Cell& cell) {
  Grid::Cell validated;
  for (const Record* record : cell)
    if (record->validation) validated.push_back(record);
  return spread_of(validated, [](const Record& record) { return *record.validation; });
}

std::optional<eval::Spread> paired_points(const Grid::Cell& a, const Grid::Cell& b) {
  std::vector<double> points;
  for (const Record* record : a)
    for (const Record* other : b)
      if (record->seed == other->seed) points.push_back(100 * (record->accuracy - other->accuracy));
  if (points.empty()) return {};
  eval::Spread spread = eval::spread(points);
  spread.mean = std::round(spread.mean * 1e10) / 1e10;
  return spread;
}

std::optional<double> standard_error(const eval::Spread& spread) {
  if (!spread.deviation) return {};
  return *spread.deviation / std::sqrt(static_cast<double>(spread.count));
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::string protocol_name(const std::string& protocol) {
  return protocol == "paper" ? "paper protocol (best test epoch)" : protocol + " protocol";
}

std::string file_name(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' ? c : '-';
  return out;
}

}  // namespace saddle::experiment
