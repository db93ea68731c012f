// Tables of accuracies: ours beside what little gets you and what others have published.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "saddle/experiment/markdown_internal.hpp"
#include "saddle/experiment/sections_internal.hpp"

namespace saddle::experiment {

namespace {

struct Entry {
  std::string text = "-";
  std::optional<double> value = {};   // a share
  std::optional<double> common = {};  // the same over the seeds that all of ours have, for averages
};

// A column of the table, by the number of the data set.
struct Column {
  std::string header;
  bool ours = false;
  std::vector<Entry> entries;
};

const Floor* floor_of(const Results& results, const std::string& data, const std::string& name) {
  for (const Floor& floor : results.floors)
    if (floor.data == data && floor.name == name) return &floor;
  return nullptr;
}

// Methods that all data sets have get columns; of the others each data set shows the best, with its name in a note.
std::vector<Column> floor_columns(const Material& material, const std::vector<std::string>& data, Notes& notes) {
  std::vector<std::string> names;
  for (const std::string& set : data)
    for (const Floor& floor : material.results.floors)
      if (floor.data == set && std::find(names.begin(), names.end(), floor.name) == names.end())
        names.push_back(floor.name);
  std::vector<Column> columns;
  Column rest{"other simple method", false, std::vector<Entry>(data.size())};
  bool any_rest = false;
  for (const std::string& name : names) {
    Column column{escaped(name), false, std::vector<Entry>(data.size())};
    const bool common = std::all_of(data.begin(), data.end(), [&](const std::string& set) {
      return floor_of(material.results, set, name) != nullptr;
    });
    for (std::size_t d = 0; d < data.size(); ++d) {
      const Floor* floor = floor_of(material.results, data[d], name);
      if (floor == nullptr) continue;
      if (common) {
        column.entries[d] = {percent_text(floor->accuracy), floor->accuracy, floor->accuracy};
      } else if (any_rest = true; floor->accuracy > rest.entries[d].value.value_or(-1)) {
        rest.entries[d] = {name, floor->accuracy, floor->accuracy};  // the text is made when the best is known
      }
    }
    if (common) columns.push_back(std::move(column));
  }
  for (Entry& entry : rest.entries)
    if (entry.value) entry.text = percent_text(*entry.value) + " " + notes.mark(escaped(entry.text));
  if (any_rest) columns.push_back(std::move(rest));
  return columns;
}

std::vector<Column> published_columns(const Material& material, const std::vector<std::string>& data, Notes& notes) {
  std::vector<Column> columns;
  std::vector<std::pair<std::string, std::string>> seen;  // name, source
  for (const Published& figure : material.experiment.published) {
    const auto set = std::find(data.begin(), data.end(), figure.data);
    if (set == data.end()) continue;
    const std::pair key(figure.name, figure.source);
    auto known = std::find(seen.begin(), seen.end(), key);
    if (known == seen.end()) {
      known = seen.insert(seen.end(), key);
      columns.push_back({fmt::format("{}, published {}", escaped(figure.name), notes.mark(figure.source)), false,
                         std::vector<Entry>(data.size())});
    }
    columns[static_cast<std::size_t>(known - seen.begin())].entries[static_cast<std::size_t>(set - data.begin())] = {
        fmt::format("{:.1f}", figure.accuracy), figure.accuracy / 100, figure.accuracy / 100};
  }
  return columns;
}

bool counts_steps(const Part& part) {
  return std::any_of(part.settings.begin(), part.settings.end(),
                     [](const auto& setting) { return setting.first == "train.steps"; });
}

// The most epochs of any run in the grid; where steps are set, of any run on the data set.
Index usual_epochs(const Grid& grid, std::size_t data) {
  Index most = 0;
  for (const std::size_t d : grid.data())
    if (d == data || !counts_steps(grid.part()))
      for (std::size_t a = 0; a < grid.part().attentions.size(); ++a)
        for (const Record* record : grid.at(d, a)) most = std::max(most, record->epochs);
  return most;
}

std::string epochs_note(const Grid& grid, std::size_t data, std::size_t attention, Notes& notes) {
  const Index usual = usual_epochs(grid, data);
  const Grid::Cell& cell = grid.at(data, attention);
  const auto fewer = static_cast<std::size_t>(
      std::count_if(cell.begin(), cell.end(), [&](const Record* record) { return record->epochs < usual; }));
  if (fewer == 0) return "";
  Index least = usual;
  for (const Record* record : cell) least = std::min(least, record->epochs);
  return " " + notes.mark(fmt::format("{} of {} had fewer epochs: {} instead of {}.", fewer,
                                      counted(cell.size(), "run"), least, usual));
}

std::vector<Column> our_columns(const Grid& grid, const std::vector<std::size_t>& data, Notes& notes) {
  std::vector<Column> columns;
  for (const std::size_t a : grid.attentions()) {
    columns.push_back({code(grid.part().attentions[a]), true, {}});
    for (const std::size_t d : data) {
      const auto found = accuracy_of(grid.at(d, a));
      columns.back().entries.push_back(found ? Entry{percent_text(*found) + epochs_note(grid, d, a, notes), found->mean}
                                             : Entry{});
    }
  }
  for (std::size_t row = 0; row < data.size(); ++row) {
    std::vector<Grid::Cell> cells;
    for (const std::size_t a : grid.attentions()) cells.push_back(grid.at(data[row], a));
    cells = with_common_seeds(std::move(cells));
    for (std::size_t c = 0; c < cells.size(); ++c)
      if (const auto found = accuracy_of(cells[c])) columns[c].entries[row].common = found->mean;
  }
  return columns;
}

// Bold where nothing of ours is shown as more.
void mark_best(std::vector<Column>& columns, std::size_t row) {
  double best = -1;
  std::size_t candidates = 0;
  for (const Column& column : columns)
    if (column.ours && column.entries[row].value) {
      best = std::max(best, std::round(1000 * *column.entries[row].value));
      ++candidates;
    }
  for (Column& column : columns) {
    Entry& entry = column.entries[row];
    if (candidates > 1 && column.ours && entry.value && std::round(1000 * *entry.value) == best)
      entry.text = "**" + percent_text(*entry.value) + "**" + entry.text.substr(percent_text(*entry.value).size());
  }
}

// The mean of every column that has a value in each of these rows, over common seeds.
std::vector<std::string> average_row(const std::vector<Column>& columns, const std::vector<std::size_t>& rows,
                                     std::string label) {
  std::vector<std::string> cells{std::move(label)};
  std::vector<std::optional<double>> means;
  double best = -1;
  std::size_t candidates = 0;
  for (const Column& column : columns) {
    double sum = 0;
    bool whole = true;
    for (const std::size_t row : rows)
      whole = whole && column.entries[row].common, sum += column.entries[row].common.value_or(0);
    means.push_back(whole ? std::optional(sum / static_cast<double>(rows.size())) : std::nullopt);
    if (column.ours && whole) best = std::max(best, std::round(1000 * *means.back())), ++candidates;
  }
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const std::string text = means[c] ? percent_text(*means[c]) : "-";
    const bool is_best = candidates > 1 && columns[c].ours && means[c] && std::round(1000 * *means[c]) == best;
    cells.push_back(is_best ? "**" + text + "**" : text);
  }
  return cells;
}

// Rows in which every column has a value, or every column of ours.
std::vector<std::size_t> whole_rows(const std::vector<Column>& columns, std::size_t rows, bool ours_alone) {
  std::vector<std::size_t> list;
  for (std::size_t r = 0; r < rows; ++r)
    if (std::all_of(columns.begin(), columns.end(), [&](const Column& column) {
          return column.entries[r].common.has_value() || (ours_alone && !column.ours);
        }))
      list.push_back(r);
  return list;
}

}  // namespace

std::string accuracy_table(const Material& material, const Grid& grid) {
  const std::vector<std::size_t> numbers = grid.data();
  std::vector<std::string> data;
  for (const std::size_t d : numbers) data.push_back(grid.part().data[d]);
  Notes notes;
  std::vector<Column> columns = floor_columns(material, data, notes);
  for (Column& column : published_columns(material, data, notes)) columns.push_back(std::move(column));
  for (Column& column : our_columns(grid, numbers, notes)) columns.push_back(std::move(column));

  std::vector<std::string> header{"data set"};
  for (const Column& column : columns) header.push_back(column.header);
  Table table(header, "l" + std::string(columns.size(), 'r'));
  for (std::size_t r = 0; r < data.size(); ++r) {
    mark_best(columns, r);
    std::vector<std::string> row{data_name(data[r])};
    for (const Column& column : columns) row.push_back(column.entries[r].text);
    table.add(std::move(row));
  }
  const std::vector<std::size_t> ours = whole_rows(columns, data.size(), true),
                                 all = whole_rows(columns, data.size(), false);
  if (ours.size() > 1 && ours != all)
    table.add(average_row(columns, ours, fmt::format("average of the {} sets that all of ours have", ours.size())));
  if (all.size() > 1)
    table.add(average_row(columns, all, fmt::format("average of the {} sets that all columns have", all.size())));
  return table.text() + notes.text();
}

}  // namespace saddle::experiment
