// What the readout takes of the last layer.
#pragma once

#include <Eigen/Core>

#include "saddle/analysis/attention_paths/attention_paths.hpp"

namespace saddle::analysis::attention_paths {

using Dense = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using DenseMap = Eigen::Map<const Dense>;

// Attention weights [T,T] (key, query), pooled over queries: [T].
inline Eigen::VectorXd pooled(const DenseMap& weights, Readout readout) {
  switch (readout) {
    case Readout::average_pooling: return weights.rowwise().mean();
    case Readout::first_token: return weights.col(0);
    case Readout::last_token: return weights.col(weights.cols() - 1);
  }
  return {};
}

}  // namespace saddle::analysis::attention_paths
