// Partial correlation and Fisher's z.
#include <fmt/format.h>

#include <Eigen/LU>
#include <cmath>

#include "saddle/analysis/causal_discovery/independence.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

// By the inverse of the correlations of x, y, z...: -P_xy / sqrt(|P_xx P_yy|).
template <class Square>
double from_inverse(const Matrix& R, Index x, Index y, std::span<const Index> z) {
  const auto width = static_cast<Eigen::Index>(z.size()) + 2;
  const auto variable = [&](Eigen::Index i) { return i == 0 ? x : i == 1 ? y : z[static_cast<std::size_t>(i - 2)]; };
  Square part(width, width);
  for (Eigen::Index i = 0; i < width; ++i)
    for (Eigen::Index j = 0; j < width; ++j) part(i, j) = R(variable(i), variable(j));
  const Square first = part.partialPivLu().solve(Square::Identity(width, 2));
  return -first(0, 1) / std::sqrt(std::fabs(first(0, 0) * first(1, 1)));
}

// Sets of usual sizes need no memory from the heap.
constexpr int small = 10;
using SmallSquare = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor, small, small>;

}  // namespace

FisherZ::FisherZ(Matrix correlation, double samples, LargeSets large)
    : correlation_(std::move(correlation)), samples_(samples), large_(large) {
  const auto [rows, columns] = correlation_.shape();
  if (rows != columns || rows == 0)
    throw InvalidArgument(fmt::format("correlations have shape ({},{}), expected a square matrix", rows, columns));
  if (const Index fewest = large == LargeSets::left_out ? fewest_samples : 1;
      !std::isfinite(samples) || samples < static_cast<double>(fewest))
    throw InvalidArgument(
        fmt::format("{} samples: Fisher's z needs {} or more", samples, fewest),
        "n is the number of rows of a table; for attention take the width of the model, for example 768");
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j <= i; ++j) {
      const double r = correlation_(i, j);
      if (!std::isfinite(r) || std::fabs(r) > 1 + 1e-6 || std::fabs(r - correlation_(j, i)) > 1e-6 ||
          (i == j && std::fabs(r - 1) > 1e-6))
        throw InvalidArgument(
            fmt::format("correlations of {} and {} are {} and {}: not a correlation matrix", i, j, r,
                        correlation_(j, i)),
            "the matrix must be symmetric with values in [-1,1] and 1 on the diagonal; attention is converted first");
    }
}

double FisherZ::p_value(double partial, Index conditions) const {
  if (std::fabs(partial) >= 1) return 0;
  const double zeta = 0.5 * std::log1p(2 * partial / (1 - partial));
  const double deviation = std::fabs(std::sqrt(samples_ - static_cast<double>(conditions) - 3) * zeta);
  return std::erfc(deviation / std::sqrt(2.0));
}

double FisherZ::p_value(Index x, Index y, std::span<const Index> z) const {
  const Matrix& R = correlation_;
  const auto k = static_cast<Index>(z.size());
  if (k == 0) return R(x, y) >= 1 ? 0 : p_value(R(x, y), 0);
  if (k > 1)
    return p_value(k + 2 <= small ? from_inverse<SmallSquare>(R, x, y, z) : from_inverse<Eigen::MatrixXd>(R, x, y, z),
                   k);
  const double xz = R(x, z[0]), yz = R(y, z[0]);
  if (xz >= 1 || yz >= 1) return 0;
  return p_value((R(x, y) - xz * yz) / std::sqrt((1 - xz * xz) * (1 - yz * yz)), 1);
}

}  // namespace saddle::analysis::causal_discovery
