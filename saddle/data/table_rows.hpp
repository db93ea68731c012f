// What both layouts of tables share: the header, the roles of its columns, the rows one by one, the class labels.
#pragma once

#include <functional>

#include "saddle/data/csv.hpp"
#include "saddle/data/labels.hpp"
#include "saddle/data/records.hpp"
#include "saddle/data/table.hpp"

namespace saddle::data {

class TableRows {
 public:
  // Reads the header. Throws DataError, and InvalidArgument for a column that does not exist.
  TableRows(const ContentsPtr& contents, const TableOptions& options);

  const std::string& file() const { return contents_->file(); }
  const std::vector<std::string>& header() const { return header_; }
  std::optional<std::size_t> target() const { return target_; }
  char delimiter() const { return delimiter_; }
  // By name or number. Throws InvalidArgument.
  std::size_t column(const std::string& name) const { return csv_column(header_, name, file()); }
  // All columns but the target and those left out; `others` too are not among them.
  std::vector<std::size_t> inputs(const std::vector<std::size_t>& others = {}) const;

  struct Place {
    std::size_t offset, size;  // in the file
  };
  // Every record after the header.
  void for_each(const std::function<void(const CsvRow& row, Place place)>& read) const;

  // The number of the label in this row, -1 if it has none and needs none.
  Index label(const CsvRow& row, Labels& labels) const;

 private:
  // A reader that stands at the header, or at the first record if there is none.
  CsvReader start() const;

  ContentsPtr contents_;
  const TableOptions& options_;
  char delimiter_ = ',';
  std::vector<std::string> header_;
  std::optional<std::size_t> target_;
};

// Gives the records their sorted labels and the description the classes, files and checksum. Throws NotSupported if the
// labels look like numbers to predict.
void finish_table(const TableRows& rows, const ContentsPtr& contents, Labels& labels, std::vector<Record>& list,
                  Description& description);

}  // namespace saddle::data
