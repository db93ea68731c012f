#include "saddle/data/whole_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "saddle/base/error.hpp"
#include "saddle/data/class_names.hpp"
#include "saddle/data/column_values.hpp"
#include "saddle/data/number.hpp"
#include "saddle/data/table_rows.hpp"

namespace saddle::data {

namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t most_numbered_classes = 10;

std::string checksum_of(const Contents& contents) {
  Checksum checksum;
  checksum.add(contents.bytes());
  return checksum.text();
}

// Labels may have an end that does not belong to them.
CsvField without_end(const CsvField& field, const std::string& end) {
  CsvField cut = field;
  cut.text = trimmed(field.text);
  if (!end.empty() && cut.text.ends_with(end)) cut.text.resize(cut.text.size() - end.size());
  return cut;
}

class Reader {
 public:
  Reader(const ContentsPtr& contents, const std::string& name, const TableOptions& options)
      : contents_(contents), options_(options), rows_(contents, options_) {
    require_utf8(*contents);
    table_.name = name;
    table_.files = {contents->file()};
    table_.checksum = checksum_of(*contents);
  }

  WholeTable read(const WholeTableOptions& options) {
    places_ = rows_.inputs();
    places_.push_back(*rows_.target());
    std::vector<ColumnValues> found(places_.size());
    Index count = 0;
    rows_.for_each([&](const CsvRow& row, TableRows::Place) {
      for (std::size_t c = 0; c < places_.size(); ++c) found[c].add(field(row, c));
      ++count;
    });
    if (count == 0) throw_empty();
    std::vector<std::size_t> named;
    for (const std::string& column : options.categories) named.push_back(rows_.column(column));
    for (std::size_t c = 0; c < places_.size(); ++c) {
      const bool is_named = std::find(named.begin(), named.end(), places_[c]) != named.end();
      take_type(found[c], c, is_named, options.target);
    }
    return take_rows();
  }

  WholeTable read_like(const std::vector<Column>& columns) {
    table_.columns = columns;
    const auto& header = rows_.header();
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const auto at = std::find(header.begin(), header.end(), columns[c].name);
      const bool is_target = c + 1 == columns.size();
      if (at == header.end() && !is_target)
        throw DataError(rows_.file(), 1, 1,
                        fmt::format("the column '{}' of the training rows is missing", columns[c].name),
                        "a file to predict has the columns that the model was trained with, in any order");
      places_.push_back(at == header.end() ? absent : static_cast<std::size_t>(at - header.begin()));
    }
    return take_rows();
  }

 private:
  [[noreturn]] void throw_empty() const { throw DataError(rows_.file(), 0, 0, "the file has a header but no records"); }

  static constexpr std::size_t absent = std::numeric_limits<std::size_t>::max();

  CsvField field(const CsvRow& row, std::size_t c) const {
    return c + 1 == places_.size() ? without_end(row[places_[c]], options_.label_end) : row[places_[c]];
  }

  void take_type(const ColumnValues& values, std::size_t c, bool named, Target target) {
    const std::string& name = rows_.header()[places_[c]];
    if (values.count() == 0)
      throw DataError(rows_.file(), 0, 0, fmt::format("column '{}' has no value in any row", name),
                      c + 1 == places_.size() ? "name another column as target" : "leave the column out");
    if (!named) values.check(name, rows_.file());
    bool classes = !values.numbers() || named;
    if (c + 1 == places_.size()) {
      if (target == Target::numbers && !values.numbers())
        throw DataError(rows_.file(), 0, 0, fmt::format("the target '{}' has values that are no numbers", name),
                        "its values are classes");
      classes = classes || target == Target::classes ||
                (target == Target::by_values && values.whole() && values.categories().size() <= most_numbered_classes);
    }
    if (classes && values.too_many())
      throw DataError(rows_.file(), 0, 0, fmt::format("column '{}' has too many different values for classes", name),
                      "let its numbers be numbers, or leave the column out");
    table_.columns.push_back({name, {}});
    if (classes) table_.columns.back().categories = values.categories();
  }

  double value_of(const CsvField& found, const Column& column) {
    const std::string_view text = trimmed(found.text);
    double value = 0;
    const Found kind = read_field(text, value);
    if (kind == Found::missing) return none;
    if (column.categories.empty()) {
      if (kind == Found::number) return value;
      if (kind == Found::too_large) throw_too_large(column.name, rows_.file(), found.line, found.column, text);
      throw DataError(rows_.file(), found.line, found.column,
                      fmt::format("column '{}': expected a number as in the training rows, found '{}'", column.name,
                                  found.text.substr(0, 40)));
    }
    if (const Index number = class_number(column.categories, text); number >= 0) return static_cast<double>(number);
    const bool is_target = &column == &table_.columns.back();
    Unknown& unknown = is_target ? unknown_targets_ : unknown_features_;
    if (++unknown.count == 1) unknown.first = fmt::format("'{}' in column '{}'", text.substr(0, 40), column.name);
    return is_target ? unknown_class : none;
  }

  WholeTable take_rows() {
    Index missing = 0;
    rows_.for_each([&](const CsvRow& row, TableRows::Place) {
      for (std::size_t c = 0; c < places_.size(); ++c) {
        table_.values.push_back(places_[c] == absent ? none : value_of(field(row, c), table_.columns[c]));
        missing += c + 1 < places_.size() && std::isnan(table_.values.back()) ? 1 : 0;
      }
      ++table_.rows;
    });
    if (table_.rows == 0) throw_empty();
    if (missing > 0) table_.notes.push_back(fmt::format("{} values of its features are missing", missing));
    note(unknown_features_, "value", "category", "missing");
    note(unknown_targets_, "target", "class", "missed");
    return std::move(table_);
  }

  struct Unknown {
    Index count = 0;
    std::string first;
  };

  void note(const Unknown& unknown, const char* what, const char* of, const char* as) {
    const bool one = unknown.count == 1;
    if (unknown.count > 0)
      table_.notes.push_back(fmt::format("{} {}{} of no {} of the training rows and {} as {}: {}", unknown.count, what,
                                         one ? " is" : "s are", of, one ? "counts" : "count", as, unknown.first));
  }

  ContentsPtr contents_;
  TableOptions options_;
  TableRows rows_;
  WholeTable table_;
  std::vector<std::size_t> places_;  // of the columns in the file
  Unknown unknown_features_, unknown_targets_;
};

}  // namespace

bool WholeTable::missing(Index row, Index column) const { return std::isnan(at(row, column)); }

WholeTable read_whole_table(const ContentsPtr& contents, const std::string& name, const WholeTableOptions& options) {
  return Reader(contents, name, options.table).read(options);
}

WholeTable read_whole_table_like(const ContentsPtr& contents, const std::string& name,
                                 const std::vector<Column>& columns, const TableOptions& options) {
  TableOptions optional = options;
  optional.target = columns.back().name;
  optional.labels_required = false;
  return Reader(contents, name, optional).read_like(columns);
}

WholeTable joined(WholeTable first, const WholeTable& second) {
  first.rows += second.rows;
  first.values.insert(first.values.end(), second.values.begin(), second.values.end());
  first.files.insert(first.files.end(), second.files.begin(), second.files.end());
  first.checksum += second.checksum;
  for (const std::string& note : second.notes)
    first.notes.push_back(second.files.empty() ? note : fmt::format("{}: {}", second.files.front(), note));
  return first;
}

}  // namespace saddle::data
