#include "saddle/analysis/causal_discovery/correlation.hpp"

#include <fmt/format.h>

#include <Eigen/Core>
#include <numeric>

#include "saddle/base/error.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<const Rows> eigen(const Matrix& x) { return {x.data(), x.shape()[0], x.shape()[1]}; }

void require_finite(const Matrix& x, const char* name) {
  for (Index i = 0; i < x.size(); ++i)
    if (!std::isfinite(x.data()[i]))
      throw InvalidArgument(fmt::format("{} ({},{}) is {}, expected a finite number", name, i / x.shape()[1],
                                        i % x.shape()[1], x.data()[i]));
}

Matrix normalised(const Rows& covariance, const std::vector<Index>& tokens) {
  const auto n = static_cast<Index>(tokens.size());
  const auto token = [&](Index i) { return tokens[static_cast<std::size_t>(i)]; };
  Matrix R({n, n});
  for (const Index i : tokens)
    if (!(std::sqrt(covariance(i, i)) > 1e-8))
      throw InvalidArgument(fmt::format("row {} of the attention is empty, so its token has no variance", i),
                            "every query must see a key; leave the token out if it is padding");
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < n; ++j)
      R(i, j) = covariance(token(i), token(j)) * (1 / std::sqrt(covariance(token(i), token(i)))) *
                (1 / std::sqrt(covariance(token(j), token(j))));
  return R;
}

std::vector<Index> all_tokens(const Matrix& attention) {
  std::vector<Index> tokens(static_cast<std::size_t>(attention.shape()[0]));
  std::iota(tokens.begin(), tokens.end(), Index{0});
  return tokens;
}

}  // namespace

void check_attention(const Matrix& attention) {
  const auto [rows, columns] = attention.shape();
  if (rows != columns || rows == 0)
    throw InvalidArgument(
        fmt::format("attention has shape ({},{}), expected one weight per pair of tokens", rows, columns),
        "give the attention of one head of self-attention");
  require_finite(attention, "attention");
}

Matrix attention_correlation(const Matrix& attention) {
  return attention_correlation(attention, nullptr, all_tokens(attention));
}

Matrix attention_correlation(const Matrix& attention, const Matrix& values) {
  return attention_correlation(attention, &values, all_tokens(attention));
}

Matrix attention_correlation(const Matrix& attention, const Matrix* values, const std::vector<Index>& tokens) {
  check_attention(attention);
  const auto A = eigen(attention);
  if (values == nullptr) return normalised(A * A.transpose(), tokens);
  if (values->shape()[0] != attention.shape()[0] || values->shape()[1] == 0)
    throw InvalidArgument(fmt::format("values have shape ({},{}), expected one row for each of the {} tokens",
                                      values->shape()[0], values->shape()[1], attention.shape()[0]));
  require_finite(*values, "value");
  const auto V = eigen(*values);
  const Rows centred = V.colwise() - V.rowwise().mean();
  const Rows mixed = A * centred;
  return normalised(mixed * mixed.transpose() / static_cast<double>(values->shape()[1]), tokens);
}

Matrix correlation(const Matrix& observations) {
  const auto [rows, variables] = observations.shape();
  if (rows < 2 || variables == 0)
    throw InvalidArgument(
        fmt::format("{} rows of {} variables have no correlations, there must be two rows or more", rows, variables));
  require_finite(observations, "observation");
  const auto X = eigen(observations);
  const Rows centred = X.rowwise() - X.colwise().mean();
  const Eigen::VectorXd norm = centred.colwise().norm();
  Matrix R({variables, variables});
  for (Index i = 0; i < variables; ++i) {
    // What is left of a constant column is rounding.
    if (!(norm(i) > 1e-14 * X.col(i).norm()))
      throw InvalidArgument(fmt::format("variable {} is constant, so it has no correlations", i),
                            "leave the variable out");
    R(i, i) = 1;
  }
  const Rows products = centred.transpose() * centred;
  for (Index i = 0; i < variables; ++i)
    for (Index j = 0; j < i; ++j) R(i, j) = R(j, i) = std::clamp(products(i, j) / (norm(i) * norm(j)), -1.0, 1.0);
  return R;
}

std::optional<std::pair<Index, Index>> copies(const Matrix& correlation) {
  for (Index i = 0; i < correlation.shape()[0]; ++i)
    for (Index j = i + 1; j < correlation.shape()[0]; ++j)
      if (std::fabs(correlation(i, j)) > 1 - 1e-10) return std::pair{i, j};
  return std::nullopt;
}

Matrix submatrix(const Matrix& matrix, const std::vector<Index>& variables) {
  const auto n = static_cast<Index>(variables.size());
  Matrix part({n, n});
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < n; ++j)
      part(i, j) = matrix(variables[static_cast<std::size_t>(i)], variables[static_cast<std::size_t>(j)]);
  return part;
}

}  // namespace saddle::analysis::causal_discovery
