#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "saddle/data/number.hpp"
#include "saddle/data/table_rows.hpp"

namespace saddle::data {

namespace {

// The rows of one series, in the order of the file.
struct Group {
  std::vector<float> values;  // [rows, channels]
  std::vector<double> times;
  Index label = -1;
  long line = 0;  // of its first row
};

class LongTableReader {
 public:
  LongTableReader(const ContentsPtr& contents, Description description, const TableOptions& options)
      : contents_(contents),
        options_(options),
        description_(std::move(description)),
        rows_(contents, options),
        id_(rows_.column(options.series_id)) {
    if (options.like != nullptr) labels_ = Labels(options.like->classes);
    std::vector<std::size_t> others{id_};
    if (!options.time.empty()) others.push_back(*(time_ = rows_.column(options.time)));
    if (rows_.target() == id_ || (time_ && (rows_.target() == time_ || *time_ == id_)))
      throw InvalidArgument("the target, the id of the series and the time are three different columns",
                            "the target is the last column if none is named");
    if (options.like == nullptr)
      inputs_ = rows_.inputs(others);
    else
      for (const std::string& name : options.like->channel_names) inputs_.push_back(rows_.column(name));
    for (const std::size_t c : inputs_) description_.channel_names.push_back(rows_.header()[c]);
  }

  DatasetPtr read() {
    rows_.for_each([&](const CsvRow& row, TableRows::Place) { read_row(row); });
    if (groups_.empty() && (options_.problems == nullptr || options_.problems->empty()))
      throw DataError(rows_.file(), 0, 0, "the file has a header but no records");
    if (options_.problems != nullptr && !options_.problems->empty())
      return series_in_memory(std::move(description_), {}, {});
    std::vector<Record> list;
    std::vector<float> values;
    const auto channels = static_cast<Index>(inputs_.size());
    for (Group& group : groups_) {
      sort_by_time(group);
      description_.missing += fill_missing(group.values, channels, options_.missing);
      list.push_back({0, 0, static_cast<Index>(group.values.size()) / channels, group.label});
      values.insert(values.end(), group.values.begin(), group.values.end());
    }
    description_.channels = channels;
    if (rows_.target()) description_.target = rows_.header()[*rows_.target()];
    if (description_.missing > 0) description_.notes.push_back(missing_note(description_.missing, options_.missing));
    finish_table(rows_, contents_, labels_, list, description_);
    return series_in_memory(std::move(description_), std::move(values), list);
  }

 private:
  [[noreturn]] void fail(const CsvField& field, std::size_t column, const std::string& message,
                         const std::string& hint) const {
    throw DataError(rows_.file(), field.line, field.column,
                    fmt::format("column '{}': {}", rows_.header()[column], message), hint);
  }

  double number(const CsvRow& row, std::size_t column) const {
    double value = 0;
    const Found found = read_field(row[column].text, value);
    if (found == Found::missing && options_.missing != Missing::refuse) return std::numeric_limits<double>::quiet_NaN();
    if (found != Found::number)
      fail(row[column], column,
           found == Found::missing ? "found a missing value"
                                   : fmt::format("expected a number, found '{}'", row[column].text.substr(0, 40)),
           found == Found::missing ? "choose to interpolate missing values or to set them to zero"
                                   : "the columns of a long table are numbers; leave this one out");
    return value;
  }

  void read_row(const CsvRow& row) {
    const std::string id(trimmed(row[id_].text));
    if (id.empty()) fail(row[id_], id_, "found no id of a series", "fill it in or remove the row");
    // A row counts as a whole or not at all.
    std::vector<float> step;
    for (const std::size_t c : inputs_) step.push_back(static_cast<float>(number(row, c)));
    double time = 0;
    if (time_ && read_field(row[*time_].text, time) != Found::number)
      fail(row[*time_], *time_, fmt::format("expected a time as a number, found '{}'", row[*time_].text.substr(0, 40)),
           "");
    const Index label = rows_.label(row, labels_);
    const auto [found, fresh] = numbers_.emplace(id, groups_.size());
    if (fresh) groups_.push_back({{}, {}, label, row[id_].line});
    Group& group = groups_[found->second];
    if (label != group.label)
      fail(row[*rows_.target()], *rows_.target(),
           fmt::format("the series '{}' has another class in line {}", id, group.line), "a series has one class");
    group.values.insert(group.values.end(), step.begin(), step.end());
    group.times.push_back(time);
  }

  void sort_by_time(Group& group) const {
    if (!time_ || std::is_sorted(group.times.begin(), group.times.end(), std::less_equal<>())) return;
    std::vector<std::size_t> order(group.times.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return group.times[a] < group.times[b]; });
    for (std::size_t i = 1; i < order.size(); ++i)
      if (group.times[order[i]] == group.times[order[i - 1]])
        throw DataError(rows_.file(), group.line, 1,
                        fmt::format("the series that starts in this line has the time {} twice", group.times[order[i]]),
                        "a series has one row for every time");
    std::vector<float> sorted;
    const std::size_t channels = inputs_.size();
    for (const std::size_t i : order)
      sorted.insert(sorted.end(), group.values.begin() + static_cast<std::ptrdiff_t>(i * channels),
                    group.values.begin() + static_cast<std::ptrdiff_t>((i + 1) * channels));
    group.values = std::move(sorted);
  }

  const ContentsPtr& contents_;
  const TableOptions& options_;
  Description description_;
  TableRows rows_;
  std::size_t id_;
  std::optional<std::size_t> time_;
  std::vector<std::size_t> inputs_;
  Labels labels_;
  std::map<std::string, std::size_t, std::less<>> numbers_;  // of the groups
  std::vector<Group> groups_;
};

}  // namespace

DatasetPtr read_long_table(const ContentsPtr& contents, Description description, const TableOptions& options) {
  return LongTableReader(contents, std::move(description), options).read();
}

}  // namespace saddle::data
