#include "saddle/eval/features.hpp"

#include <algorithm>
#include <cmath>

#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"

namespace saddle::eval {

namespace {

// Rows of `width` features, each made from its sample.
template <class Fill>
Features rows_from(const data::Dataset& data, Index width, const Fill& fill) {
  Features x = Features::Zero(data.size(), width);
  parallel_for(data.size(), 16,
               [&](Index begin, Index end) {
                 data::Sample sample;
                 for (Index i = begin; i < end; ++i) {
                   data.read(i, sample);
                   fill(sample, x.row(i));
                 }
               },
               {Schedule::dynamic});
  return x;
}

}  // namespace

std::vector<Index> labels_of(const data::Dataset& data) {
  std::vector<Index> labels(static_cast<std::size_t>(data.size()));
  for (Index i = 0; i < data.size(); ++i) labels[static_cast<std::size_t>(i)] = data.label(i);
  return labels;
}

Features series_of(const data::Dataset& data, const data::Scaling& scaling, Index length) {
  const Index channels = data.description().channels;
  return rows_from(data, channels * length, [&](data::Sample& sample, auto row) {
    scaling.apply(sample, channels);
    for (Index t = 0; t < std::min(sample.length, length); ++t)
      for (Index c = 0; c < channels; ++c)
        row[c * length + t] = sample.values[static_cast<std::size_t>(t * channels + c)];
  });
}

Features pixels_of(const data::Dataset& data) {
  const data::Description& about = data.description();
  const Index pixels = about.rows * about.columns;
  if (about.kind == data::Kind::image || about.kind == data::Kind::image_text)
    return rows_from(data, about.channels * pixels, [](const data::Sample& sample, auto row) {
      std::copy(sample.values.begin(), sample.values.end(), row.data());
    });
  // 256 grey values; where they are shifted by one, 0 does not occur, and a constant does not matter.
  return rows_from(data, pixels, [](const data::Sample& sample, auto row) {
    for (std::size_t i = 0; i < sample.tokens.size(); ++i)
      row[static_cast<Index>(i)] = static_cast<float>(sample.tokens[i]) / 255;
  });
}

Features histograms_of(const data::Dataset& data, Index length) {
  const data::Description& about = data.description();
  const Index vocabulary = about.vocabulary;
  const auto count = [&](const std::vector<std::int32_t>& tokens, auto part) {
    const auto used = static_cast<std::ptrdiff_t>(std::min(static_cast<Index>(tokens.size()), length));
    Index counted = 0;
    for (auto token = tokens.begin(); token != tokens.begin() + used; ++token)
      if (*token != 0) {
        ++part[*token];
        ++counted;
      }
    part /= static_cast<float>(std::max<Index>(1, counted));
  };
  const bool pair = about.kind == data::Kind::pair;
  return rows_from(data, pair ? 2 * vocabulary : vocabulary, [&](const data::Sample& sample, auto row) {
    count(sample.tokens, row.head(vocabulary));
    if (pair) count(sample.second, row.tail(vocabulary));
  });
}

Features rows_of(const Features& x, const std::vector<Index>& samples) {
  Features part(static_cast<Index>(samples.size()), x.cols());
  for (Index i = 0; i < part.rows(); ++i) part.row(i) = x.row(samples[static_cast<std::size_t>(i)]);
  return part;
}

std::vector<Index> labels_of(std::span<const Index> labels, const std::vector<Index>& samples) {
  std::vector<Index> part;
  for (const Index sample : samples) part.push_back(labels[static_cast<std::size_t>(sample)]);
  return part;
}

Standard::Standard(const Features& x) {
  const auto n = static_cast<double>(x.rows());
  Eigen::RowVectorXd sum = Eigen::RowVectorXd::Zero(x.cols()), squares = sum;
  for (Index i = 0; i < x.rows(); ++i) sum += x.row(i).cast<double>();
  sum /= n;
  for (Index i = 0; i < x.rows(); ++i) squares += (x.row(i).cast<double>() - sum).cwiseAbs2();
  mean = sum.cast<float>();
  factor = squares.unaryExpr([n](double square) { return square > 0 ? 1 / std::sqrt(square / n) : 0; }).cast<float>();
  // Rounding of the mean alone is no variation.
  for (Index j = 0; j < x.cols(); ++j)
    if ((x.col(j).array() == x(0, j)).all()) factor[j] = 0;
}

void Standard::apply(Features& x) const {
  for (Index i = 0; i < x.rows(); ++i) x.row(i) = (x.row(i) - mean).cwiseProduct(factor);
}

}  // namespace saddle::eval
