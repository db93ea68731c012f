#include "saddle/train/tabular/impute.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/data/csv.hpp"
#include "saddle/data/find_table.hpp"
#include "saddle/data/number.hpp"

namespace saddle::train::tabular {

namespace {

// What the outputs [widths] of a row say of a column.
FilledCell filled(const Encoding& encoding, Index column, const Tensor& outputs) {
  const data::Column& kind = encoding.columns[static_cast<std::size_t>(column)];
  if (kind.categories.empty())
    return {0, kind.name, fmt::format("{:.6g}", encoding.number(outputs[0].item<double>(), column))};
  const Tensor shares = outputs.to(torch::kFloat64).softmax(0);
  const auto best = shares.argmax().item<int64_t>();
  return {0, kind.name, kind.categories[static_cast<std::size_t>(best)], shares[best].item<double>()};
}

std::string line_of(const data::CsvRow& row) {
  std::vector<std::string> fields;
  for (const data::CsvField& field : row) fields.push_back(data::csv_field(field.text));
  return join(fields, ",") + "\n";
}

}  // namespace

Imputation impute(const TrainedTable& trained, const std::string& file, const data::Where& where) {
  if (trained.settings.mask_features <= 0)
    throw InvalidArgument(
        fmt::format("the model of {} was trained without hiding features: it cannot fill them in", trained.name),
        "train with --mask-features 0.15");
  const Encoding& encoding = trained.encoding;
  const data::WholeTable table = data::open_rows(file, encoding.columns, where);
  const Tensor outputs = meet(trained, table, true);
  const data::ContentsPtr contents = data::read_contents(file, where.stream_above);
  data::CsvReader reader(contents->bytes(), contents->file(), data::csv_delimiter(contents->bytes()));
  data::CsvRow row;
  reader.next(row);
  const std::vector<std::string> header = data::csv_header(row, contents->file());
  Imputation result{line_of(row), {}, table.notes};
  const auto kinds = encoding.model_columns();
  for (Index number = 0; number < table.rows; ++number) {
    reader.next(row);
    int64_t offset = 0;
    for (Index c = 0; c < encoding.width(); ++c) {
      const int64_t width = kinds[static_cast<std::size_t>(c)].width;
      const auto at = std::find(header.begin(), header.end(), encoding.columns[static_cast<std::size_t>(c)].name);
      double ignored = 0;
      // A category that is not known is no gap.
      if (at != header.end()) {
        data::CsvField& field = row[static_cast<std::size_t>(at - header.begin())];
        if (data::read_field(field.text, ignored) == data::Found::missing) {
          FilledCell cell = filled(encoding, c, outputs[number].narrow(0, offset, width));
          cell.row = number;
          field.text = cell.value;
          result.cells.push_back(std::move(cell));
        }
      }
      offset += width;
    }
    result.csv += line_of(row);
  }
  return result;
}

}  // namespace saddle::train::tabular
