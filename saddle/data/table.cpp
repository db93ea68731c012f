#include "saddle/data/table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "saddle/data/class_names.hpp"
#include "saddle/data/column_values.hpp"
#include "saddle/data/number.hpp"
#include "saddle/data/table_rows.hpp"

namespace saddle::data {

namespace {

bool is_missing(std::string_view text) {
  double value = 0;
  return read_field(text, value) == Found::missing;
}

// How the fields of a row become the steps of a series.
struct Encoding {
  struct Step {
    std::size_t field;                    // in the row
    std::size_t channel;                  // of its first category
    std::vector<std::string> categories;  // none: a number
    double offset;                        // of numbers
  };
  std::vector<Step> steps;
  std::size_t channels = 1;
  bool flagged = false;

  // [steps, channels]; counts categories that are not known.
  void encode(const CsvRow& row, std::vector<float>& values, Index& unknown) const {
    values.assign(steps.size() * channels, 0);
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const Step& step = steps[s];
      float* into = values.data() + s * channels;
      double number = 0;
      const std::string_view text = trimmed(row[step.field].text);
      const Found found = read_field(text, number);
      if (found == Found::missing) {
        if (flagged) into[1] = 1;
      } else if (step.categories.empty()) {
        into[0] = static_cast<float>(number - step.offset);
      } else {
        const Index category = class_number(step.categories, text);
        if (category < 0)
          ++unknown;
        else
          into[step.channel + static_cast<std::size_t>(category)] = 1;
      }
    }
  }
};

class TableReader {
 public:
  TableReader(const ContentsPtr& contents, Description description, const TableOptions& options)
      : contents_(contents), options_(options), description_(std::move(description)), rows_(contents, options) {
    if (options.like != nullptr) labels_ = Labels(options.like->classes);
  }

  DatasetPtr read() {
    choose_columns();
    std::vector<ColumnValues> columns(inputs_.size());
    std::vector<Record> list;
    rows_.for_each([&](const CsvRow& row, TableRows::Place place) {
      for (std::size_t i = 0; i < inputs_.size(); ++i) {
        const CsvField& field = row[inputs_[i]];
        if (is_missing(field.text)) count_missing(field, i);
        if (options_.like == nullptr)
          columns[i].add(field);
        else
          check_type(field, i);
      }
      list.push_back({place.offset, place.size, static_cast<Index>(inputs_.size()), rows_.label(row, labels_)});
    });
    if (list.empty() && (options_.problems == nullptr || options_.problems->empty()))
      throw DataError(rows_.file(), 0, 0, "the file has a header but no records");
    if (options_.problems != nullptr && !options_.problems->empty())
      return series_in_memory(std::move(description_), {}, {});
    if (options_.like == nullptr) take_types(columns);
    make_encoding();
    describe();
    finish_table(rows_, contents_, labels_, list, description_);
    return dataset(std::move(list));
  }

 private:
  const std::string& name(std::size_t input) const { return rows_.header()[inputs_[input]]; }

  // Which columns of this file are the inputs: its own, or those of the training split, wherever they stand here.
  void choose_columns() {
    if (options_.like == nullptr) {
      inputs_ = rows_.inputs();
      return;
    }
    table_ = options_.like->table;
    for (const Column& column : table_) {
      const auto& header = rows_.header();
      if (std::find(header.begin(), header.end(), column.name) == header.end())
        throw DataError(rows_.file(), 1, 1, fmt::format("the column '{}' of the training rows is missing", column.name),
                        "a file to predict has the columns that the model was trained with, in any order");
      inputs_.push_back(rows_.column(column.name));
    }
  }

  void count_missing(const CsvField& field, std::size_t input) {
    const bool unforeseen = options_.like != nullptr && !options_.like->flagged;
    if (options_.missing == Missing::refuse || unforeseen)
      throw DataError(rows_.file(), field.line, field.column,
                      fmt::format("column '{}': found a missing value{}", name(input),
                                  unforeseen ? ", and the training rows have none" : ""),
                      "fill it in or remove the row");
    ++missing_;
  }

  void check_type(const CsvField& field, std::size_t input) const {
    double value = 0;
    if (!table_[input].categories.empty()) return;
    if (const Found found = read_field(field.text, value); found != Found::number && found != Found::missing)
      throw DataError(rows_.file(), field.line, field.column,
                      fmt::format("column '{}': expected a number as in the training rows, found '{}'", name(input),
                                  field.text.substr(0, 40)));
  }

  void take_types(const std::vector<ColumnValues>& columns) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const ColumnValues& values = columns[i];
      values.check(name(i), rows_.file());
      table_.push_back({name(i), {}, values.offset()});
      if (!values.numbers()) table_.back().categories = values.categories();
    }
    encoding_.flagged = missing_ > 0;
  }

  void make_encoding() {
    if (options_.like != nullptr) encoding_.flagged = options_.like->flagged;
    encoding_.channels = encoding_.flagged ? 2 : 1;
    for (std::size_t i = 0; i < table_.size(); ++i) {
      encoding_.steps.push_back({inputs_[i], encoding_.channels, table_[i].categories, table_[i].offset});
      encoding_.channels += table_[i].categories.size();
    }
  }

  void describe() {
    description_.channels = static_cast<Index>(encoding_.channels);
    description_.flagged = encoding_.flagged;
    description_.table = table_;
    description_.missing = missing_;
    if (rows_.target()) description_.target = rows_.header()[*rows_.target()];
    description_.channel_names = {"value"};
    if (encoding_.flagged) description_.channel_names.emplace_back("missing");
    for (const Column& column : table_)
      for (const std::string& category : column.categories)
        description_.channel_names.push_back(column.name + "=" + category);
    if (missing_ > 0)
      description_.notes.push_back(
          fmt::format("{} missing {}: 0 after scaling, and flagged", missing_, missing_ == 1 ? "value" : "values"));
  }

  DatasetPtr dataset(std::vector<Record> list) {
    Index unknown = 0;
    std::vector<float> all, values;
    rows_.for_each([&](const CsvRow& row, TableRows::Place) {
      encoding_.encode(row, values, unknown);
      if (!contents_->on_disk()) all.insert(all.end(), values.begin(), values.end());
    });
    if (unknown > 0)
      description_.notes.push_back(
          fmt::format("{} {} of no category of the training rows", unknown, unknown == 1 ? "value is" : "values are"));
    if (!contents_->on_disk()) return series_in_memory(std::move(description_), std::move(all), list);
    return records(std::move(description_), contents_, std::move(list),
                   [file = contents_->file(), encoding = encoding_, delimiter = rows_.delimiter()](
                       std::string_view bytes, const Record&, Sample& into) {
                     CsvReader reader(bytes, file, delimiter);
                     CsvRow row;
                     reader.next(row);
                     Index ignored = 0;
                     encoding.encode(row, into.values, ignored);
                   });
  }

  const ContentsPtr& contents_;
  const TableOptions& options_;
  Description description_;
  TableRows rows_;
  Labels labels_;
  std::vector<std::size_t> inputs_;  // columns of the file
  std::vector<Column> table_;
  Encoding encoding_;
  Index missing_ = 0;
};

}  // namespace

DatasetPtr read_table(const ContentsPtr& contents, Description description, const TableOptions& options) {
  return TableReader(contents, std::move(description), options).read();
}

}  // namespace saddle::data
