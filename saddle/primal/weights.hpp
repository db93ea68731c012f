// The weights of the expansion, A_ij = kappa(q_i,k_j)/h(q_i) over the visible keys, and their gradient.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "saddle/primal/attention.hpp"
#include "saddle/primal/features.hpp"

namespace saddle::primal {

// Prepared for one width D, N queries and K keys of a head.
class SADDLE_API WeightRule {
 public:
  WeightRule(const Attention& attention, Index D, Index N, Index K);

  // One row: q [D], k [K,D], visible [K] -> weights [K] (0 where hidden). Returns log h(q), -inf for an empty row,
  // NaN when h is not positive.
  double row(std::span<const double> q, const Matrix& k, std::span<const std::uint8_t> visible,
             std::span<double> weights) const;

  // Gradient of one row: dweights [K] -> dq [D] and dk [K,D] are added to.
  void row_pullback(std::span<const double> q, const Matrix& k, std::span<const std::uint8_t> visible,
                    std::span<const double> dweights, std::span<double> dq, Matrix& dk) const;

  // kappa(x,x') and, for the regression, h at x against the keys k [K,D].
  double kappa(std::span<const double> x, std::span<const double> y) const;
  double normaliser(std::span<const double> x, const Matrix& k, std::span<const std::uint8_t> visible) const;

 private:
  // Scores s_j (score kernels) or kappa_j (feature kernels) of one row.
  void scores(std::span<const double> q, const Matrix& k, std::span<const std::uint8_t> visible,
              std::span<double> s) const;

  std::optional<ScoreForm> form_;
  std::optional<FeatureMap> features_;
  NormaliserRule h_;
};

}  // namespace saddle::primal
