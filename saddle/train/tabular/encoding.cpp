#include "saddle/train/tabular/encoding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "saddle/base/error.hpp"

namespace saddle::train::tabular {

namespace {

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Equal values have none but by rounding.
double deviation_of(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  if (*least == *most) return 1;
  const double mean = mean_of(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

// Of several the first.
double commonest_of(const std::vector<double>& values, std::size_t classes) {
  std::vector<Index> counts(classes);
  for (const double value : values) ++counts[static_cast<std::size_t>(value)];
  return static_cast<double>(std::max_element(counts.begin(), counts.end()) - counts.begin());
}

}  // namespace

Encoding Encoding::fit(const data::WholeTable& table, const std::vector<bool>& features,
                       const std::vector<bool>& targets) {
  Encoding encoding{table.columns, {}, {}};
  for (Index c = 0; c < table.width(); ++c) {
    const std::vector<bool>& counts = c + 1 == table.width() ? targets : features;
    std::vector<double> values;
    for (Index row = 0; row < table.rows; ++row)
      if (counts[static_cast<std::size_t>(row)] && !table.missing(row, c)) values.push_back(table.at(row, c));
    const std::string& name = table.columns[static_cast<std::size_t>(c)].name;
    if (values.empty())
      throw InvalidArgument(fmt::format("the column '{}' of {} has no value in any row that trains", name, table.name),
                            "leave it out with --leave-out");
    const auto classes = table.columns[static_cast<std::size_t>(c)].categories.size();
    encoding.mean.push_back(classes == 0 ? mean_of(values) : commonest_of(values, classes));
    encoding.deviation.push_back(classes == 0 ? deviation_of(values) : 1);
    if (!std::isfinite(encoding.deviation.back()))
      throw InvalidArgument(
          fmt::format("the column '{}' of {} has values too large for their squares", name, table.name),
          "give it in larger units");
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
      if (std::isnan(*value) || (kinds[c].categorical && *value == data::unknown_class)) {
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
