// Values of a trained layer against those that kernel PCA calls for.
#include <fmt/format.h>

#include <cmath>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/kpca_value/eigen_internal.hpp"
#include "saddle/mechanisms/kpca_value/kpca_value.hpp"

namespace saddle::mechanisms::kpca_value {

namespace {

void require_rows(const Matrix& x, Index rows, const char* name) {
  if (x.shape()[0] != rows)
    throw InvalidArgument(fmt::format("[kpca_value] {} have {} rows, expected {}", name, x.shape()[0], rows));
}

// Over pairs i < j of each column of x; one row has no pairs, hence a spread of 0.
template <class Distance>
std::vector<Spread> spread(const Matrix& x, Distance distance) {
  const Index N = x.shape()[0];
  const double pairs = std::max(1.0, static_cast<double>(N) * static_cast<double>(N - 1) / 2);
  std::vector<Spread> result;
  for (Index d = 0; d < x.shape()[1]; ++d) {
    const auto mean_of = [&](auto f) {
      double sum = 0;
      for (Index i = 0; i < N; ++i)
        for (Index j = i + 1; j < N; ++j) sum += f(distance(x(i, d), x(j, d)));
      return sum / pairs;
    };
    const double mean = mean_of([](double r) { return r; });
    const double variance = mean_of([&](double r) { return (r - mean) * (r - mean); });
    result.push_back({mean, std::sqrt(variance)});
  }
  return result;
}

}  // namespace

Matrix gamma(const Gram& gram, const Matrix& v) {
  const Index N = gram.g.size();
  require_rows(v, N, "values");
  // A factor common to all g_j falls out of the quotient: the largest is taken as 1, and none overflows.
  const Eigen::VectorXd log_g = mapped(gram.log_g).array() - mapped(gram.log_g).maxCoeff();
  const Dense a = without_mean(mapped(v).array().colwise() * log_g.array().exp());
  return to_matrix((mapped(gram.centred) * a).cwiseQuotient(static_cast<double>(N) * a));
}

std::vector<Spread> absolute_spread(const Matrix& gamma) {
  return spread(gamma, [](double a, double b) { return std::fabs(a - b); });
}

std::vector<Spread> relative_spread(const Matrix& gamma) {
  return spread(gamma,
                [](double a, double b) { return std::fabs(a - b) / (std::max(std::fabs(a), std::fabs(b)) + 1e-10); });
}

double linear_cka(const Matrix& x, const Matrix& y) {
  require_rows(y, x.shape()[0], "the second rows");
  const Dense a = without_mean(mapped(x)), b = without_mean(mapped(y));
  // sum((A A^T) * (B B^T)) = |A^T B|^2, which needs no N x N matrix.
  const auto hsic = [](const Dense& u, const Dense& w) { return (u.transpose() * w).squaredNorm(); };
  return hsic(a, b) / (std::sqrt(hsic(a, a) * hsic(b, b)) + 1e-10);
}

Matrix row_cosines(const Matrix& x, const Matrix& y) {
  if (x.shape()[1] != y.shape()[1])
    throw InvalidArgument(
        fmt::format("[kpca_value] rows of width {} are compared with rows of width {}", x.shape()[1], y.shape()[1]));
  const Eigen::VectorXd a = mapped(x).rowwise().norm().array() + 1e-8, b = mapped(y).rowwise().norm().array() + 1e-8;
  return to_matrix((mapped(x) * mapped(y).transpose()).cwiseQuotient(a * b.transpose()));
}

Agreement agreement(const Matrix& k, const Matrix& v, Normalisation normalisation) {
  const Gram keys = gram(k);
  require_rows(v, k.shape()[0], "values");
  const Axes formula = axes(keys, v.shape()[1], normalisation);
  const Matrix gammas = gamma(keys, v), cosines = row_cosines(v, formula.values);
  return {formula.lambda,
          absolute_spread(gammas),
          relative_spread(gammas),
          linear_cka(v, formula.values),
          mapped(cosines).diagonal().mean(),
          best_matching(cosines).mean};
}

}  // namespace saddle::mechanisms::kpca_value
