// What is measured of a token matrix.
#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <limits>

#include "saddle/analysis/rank_collapse/rank_collapse.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"

namespace saddle::analysis::rank_collapse {

namespace {

using Tokens = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

void measure_spectrum(const Tokens& x, double rank_rtol, Measures& m) {
  const Eigen::VectorXd s = Eigen::BDCSVD<Eigen::MatrixXd>(x).singularValues();
  m.sigma_min = s(s.size() - 1);
  const double largest = s(0), sum = s.sum();
  if (!(largest > 0)) return;
  double entropy = 0;
  for (const double value : s) {
    const double p = value / sum;
    if (p > 0) entropy -= p * std::log(p);
    if (value > rank_rtol * largest) m.rank += 1;
  }
  m.effective_rank = std::exp(entropy);
  m.stable_rank = s.squaredNorm() / (largest * largest);
}

// Tokens of length 0 have cosine 0 with all others.
void measure_angles(const Tokens& x, Measures& m) {
  const Index N = x.rows();
  if (N < 2) {
    m.cos_mean = m.cos_abs_mean = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  Tokens unit = x;
  for (Index i = 0; i < N; ++i)
    if (const double length = x.row(i).norm(); length > 0) unit.row(i) /= length;
  const Eigen::MatrixXd cosines = unit * unit.transpose();
  for (Index i = 0; i < N; ++i)
    for (Index j = i + 1; j < N; ++j) {
      m.cos_mean += cosines(i, j);
      m.cos_abs_mean += std::fabs(cosines(i, j));
    }
  const double pairs = 0.5 * static_cast<double>(N) * static_cast<double>(N - 1);
  m.cos_mean /= pairs;
  m.cos_abs_mean /= pairs;
}

}  // namespace

Measures measure(const Matrix& tokens, double rank_rtol) {
  if (tokens.empty())
    throw InvalidArgument("rank_collapse: there are no tokens in a matrix of " + std::to_string(tokens.shape()[0]) +
                          " by " + std::to_string(tokens.shape()[1]));
  if (!(rank_rtol >= 0 && rank_rtol < 1))
    throw InvalidArgument("rank_collapse: rank_rtol must be from 0 to 1, found " + std::to_string(rank_rtol));
  const Eigen::Map<const Tokens> x(tokens.data(), tokens.shape()[0], tokens.shape()[1]);
  if (!x.allFinite()) throw InvalidArgument("rank_collapse: a token holds NaN or infinity");
  Measures m;
  m.mu = (x.rowwise() - x.colwise().mean()).norm();
  const double size = x.norm();
  m.mu_relative = size > 0 ? m.mu / size : 0;
  m.oscillation = (x.colwise().maxCoeff() - x.colwise().minCoeff()).maxCoeff();
  measure_spectrum(x, rank_rtol, m);
  measure_angles(x, m);
  return m;
}

std::vector<Measures> measure(const std::vector<Matrix>& tokens, double rank_rtol) {
  std::vector<Measures> all(tokens.size());
  parallel_for(static_cast<Index>(tokens.size()), 1, [&](Index t) {
    all[static_cast<std::size_t>(t)] = measure(tokens[static_cast<std::size_t>(t)], rank_rtol);
  });
  return all;
}

}  // namespace saddle::analysis::rank_collapse
