// Samples as rows of numbers, for classifiers that need no more.
#pragma once

#include <Eigen/Core>
#include <span>
#include <vector>

#include "saddle/data/split.hpp"

namespace saddle::eval {

// One row per sample, one column per feature.
using Features = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

std::vector<Index> labels_of(const data::Dataset& data);

// Series cut at `length` steps or padded with 0 to it, scaled before; one channel behind the other. [n, channels x
// length]
Features series_of(const data::Dataset& data, const data::Scaling& scaling, Index length);

// Images, also where pixels are tokens: black is 0, white is 1. [n, channels x rows x columns]
Features pixels_of(const data::Dataset& data);

// How often every token stands among the first `length`, as a share of them; of a pair both documents, one behind the
// other. Padding, token 0, does not count. [n, vocabulary], of a pair [n, 2 vocabulary]
Features histograms_of(const data::Dataset& data, Index length);

// The chosen rows, and their labels.
Features rows_of(const Features& x, const std::vector<Index>& samples);
std::vector<Index> labels_of(std::span<const Index> labels, const std::vector<Index>& samples);

// Per feature mean 0 and deviation 1 over the rows it was fitted to; one that is the same in all of them becomes 0.
struct Standard {
  Eigen::RowVectorXf mean, factor;

  explicit Standard(const Features& x);
  void apply(Features& x) const;
};

}  // namespace saddle::eval
