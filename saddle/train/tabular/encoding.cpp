#include "saddle/train/tabular/encoding.hpp"

#include <fmt/format.h>

#include <cmath>

#include "saddle/base/error.hpp"

namespace saddle::train::tabular {

Encoding Encoding::fit(const data::WholeTable& table, const std::vector<bool>& features,
                       const std::vector<bool>& targets) {
  Encoding encoding{table.columns, {}, {}};
  for (Index c = 0; c < table.width(); ++c) {
    const std::vector<bool>& counts = c + 1 == table.width() ? targets : features;
    double sum = 0, squares = 0, count = 0;
    for (const bool second : {false, true}) {
      const double mean = count > 0 ? sum / count : 0;
      for (Index row = 0; row < table.rows; ++row) {
        if (!counts[static_cast<std::size_t>(row)] || table.missing(row, c)) continue;
        const double value = table.at(row, c);
        if (second) {
          squares += (value - mean) * (value - mean);
        } else {
          sum += value;
          ++count;
        }
      }
    }
    const std::string& name = table.columns[static_cast<std::size_t>(c)].name;
    if (count == 0)
      throw InvalidArgument(fmt::format("the column '{}' of {} has no value in any row that trains", name, table.name),
                            "leave it out with --leave-out");
    const bool number = table.columns[static_cast<std::size_t>(c)].categories.empty();
    const double deviation = std::sqrt(squares / count);
    encoding.mean.push_back(number ? sum / count : 0);
    encoding.deviation.push_back(number && deviation > 0 ? deviation : 1);
  }
  return encoding;
}

std::vector<nn::NptColumn> Encoding::model_columns() const {
  std::vector<nn::NptColumn> list;
  for (const data::Column& column : columns)
    list.push_back(column.categories.empty() ? nn::NptColumn{1, false}
                                             : nn::NptColumn{static_cast<int64_t>(column.categories.size()), true});
  return list;
}

Tensor Encoding::encode(const std::vector<double>& values) const {
  const auto kinds = model_columns();
  int64_t channels = 0;
  for (const nn::NptColumn& kind : kinds) channels += kind.width + 1;
  const auto rows = static_cast<int64_t>(values.size()) / width();
  Tensor encoded = torch::zeros({rows, channels});
  float* into = encoded.data_ptr<float>();
  const double* value = values.data();
  for (int64_t row = 0; row < rows; ++row)
    for (std::size_t c = 0; c < kinds.size(); ++c, ++value) {
      if (std::isnan(*value)) {
        into[kinds[c].width] = 1;
      } else if (kinds[c].categorical) {
        into[static_cast<std::size_t>(*value)] = 1;
      } else {
        into[0] = static_cast<float>((*value - mean[c]) / deviation[c]);
      }
      into += kinds[c].width + 1;
    }
  return encoded;
}

double Encoding::number(double standardised, Index column) const {
  const auto c = static_cast<std::size_t>(column);
  return mean[c] + deviation[c] * standardised;
}

}  // namespace saddle::train::tabular
