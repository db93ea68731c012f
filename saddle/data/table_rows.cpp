#include "saddle/data/table_rows.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "saddle/base/text.hpp"
#include "saddle/data/number.hpp"
#include "saddle/data/problems.hpp"

namespace saddle::data {

TableRows::TableRows(const ContentsPtr& contents, const TableOptions& options)
    : contents_(contents), options_(options), delimiter_(csv_delimiter(contents->bytes())), header_(options.header) {
  CsvReader reader = start();
  if (reader.done())
    throw DataError(file(), 0, 0, "the file is empty",
                    "the first line names the columns, each further line is a record");
  if (header_.empty()) {
    CsvRow row;
    reader.next(row);
    header_ = csv_header(row, file());
  }
  const std::string name = options.target.empty() && options.like != nullptr ? options.like->target : options.target;
  const bool known = std::find(header_.begin(), header_.end(), name) != header_.end();
  if (known || (!name.empty() && options.labels_required))
    target_ = column(name);
  else if (options.labels_required)
    target_ = header_.size() - 1;
  if (header_.size() < 2 && options.labels_required)
    throw DataError(file(), 1, 1, fmt::format("found one column, '{}', expected inputs and a class label", header_[0]),
                    "columns are separated by commas, semicolons or tabs");
}

CsvReader TableRows::start() const {
  CsvReader reader(contents_->bytes(), contents_->file(), delimiter_);
  CsvRow row;
  for (Index i = 0; i < options_.skip_lines && !reader.done(); ++i) reader.next(row);
  return reader;
}

std::vector<std::size_t> TableRows::inputs(const std::vector<std::size_t>& others) const {
  std::vector<std::size_t> left = others;
  for (const std::string& name : options_.leave_out) left.push_back(column(name));
  std::vector<std::size_t> inputs;
  for (std::size_t c = 0; c < header_.size(); ++c)
    if (c != target_ && std::find(left.begin(), left.end(), c) == left.end()) inputs.push_back(c);
  if (inputs.empty()) throw InvalidArgument(fmt::format("{} leaves no column for the inputs", file()));
  return inputs;
}

void TableRows::for_each(const std::function<void(const CsvRow&, Place)>& read) const {
  CsvReader reader = start();
  CsvRow row;
  if (options_.header.empty()) reader.next(row);
  while (!reader.done()) {
    const std::size_t offset = reader.offset();
    reader.next(row);
    if (row.size() == 1 && row[0].text.empty() && reader.done()) break;  // an empty line at the end
    const Place place{offset, reader.offset() - offset};
    const bool more = collect(options_.problems, [&] {
      check_width(row, header_.size(), file());
      read(row, place);
    });
    if (!more) break;
  }
}

Index TableRows::label(const CsvRow& row, Labels& labels) const {
  if (!target_) return -1;
  const CsvField& field = row[*target_];
  std::string_view text = trimmed(field.text);
  if (!options_.label_end.empty() && text.ends_with(options_.label_end)) text.remove_suffix(options_.label_end.size());
  if (text.empty() || text == "?") {
    if (!options_.labels_required) return -1;
    throw DataError(file(), field.line, field.column,
                    fmt::format("column '{}': found no class label", header_[*target_]),
                    "fill it in or remove the row");
  }
  const Index number = labels.number(text);
  if (number < 0)
    throw DataError(file(), field.line, field.column,
                    fmt::format("column '{}': the class '{}' is none of the training rows': {}", header_[*target_],
                                text, join(labels.names())));
  return number;
}

void finish_table(const TableRows& rows, const ContentsPtr& contents, Labels& labels, std::vector<Record>& list,
                  Description& description) {
  if (!labels.fixed()) {
    const std::vector<Index> became = labels.sort();
    const auto is_number = [](const std::string& name) { return parse_number(name).has_value(); };
    const auto& names = labels.names();
    if (names.size() > 20 && 2 * names.size() > list.size() && std::all_of(names.begin(), names.end(), is_number))
      throw NotSupported(
          fmt::format("{}: column '{}' has {} different numbers in {} rows: it looks like a number to predict",
                      rows.file(), rows.header()[*rows.target()], names.size(), list.size()),
          {"only classes can be learned"}, "name the column with the classes as target");
    for (Record& record : list)
      if (record.label >= 0) record.label = became[static_cast<std::size_t>(record.label)];
  }
  description.kind = Kind::series;
  description.classes = labels.names();
  description.files.push_back(contents->file());
  Checksum checksum;
  checksum.add(contents->bytes());
  description.checksum = checksum.text();
}

}  // namespace saddle::data
