// The values that kernel PCA calls for.
#include <fmt/format.h>

#include <Eigen/Eigenvalues>
#include <cmath>
#include <limits>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/kpca_value/eigen_internal.hpp"
#include "saddle/mechanisms/kpca_value/kpca_value.hpp"

namespace saddle::mechanisms::kpca_value {

namespace {

void require(bool holds, const std::string& message) {
  if (!holds) throw InvalidArgument("[kpca_value] " + message);
}

void require_keys(const Matrix& k) {
  require(k.shape()[0] > 0 && k.shape()[1] > 0,
          fmt::format("keys must not be empty, found {} of width {}", k.shape()[0], k.shape()[1]));
}

// x.y/sqrt(D) of all rows
Dense scores(const Matrix& x, const Matrix& y) {
  require_keys(y);
  require(x.shape()[1] == y.shape()[1], fmt::format("queries have width {}, keys {}", x.shape()[1], y.shape()[1]));
  return mapped(x) * mapped(y).transpose() / std::sqrt(static_cast<double>(y.shape()[1]));
}

// Logarithm of the sum of exponentials of each row, for scores whose exponentials would overflow too.
Eigen::VectorXd log_sums(const Dense& s) {
  const Eigen::VectorXd top = s.rowwise().maxCoeff();
  return (s.colwise() - top).array().exp().rowwise().sum().log().matrix() + top;
}

// Of a matrix that a cotangent must fit.
void require_shape(const Matrix& x, Index rows, Index columns, const char* name) {
  require(x.shape()[0] == rows && x.shape()[1] == columns,
          fmt::format("{} is {} x {}, expected {} x {}", name, x.shape()[0], x.shape()[1], rows, columns));
}

}  // namespace

Gram gram(const Matrix& k) {
  const Dense s = scores(k, k);
  const Eigen::VectorXd log_g = log_sums(s);
  const Dense scaled = ((s.colwise() - log_g).rowwise() - log_g.transpose()).array().exp();
  return {to_vector(log_g), to_vector(log_g.array().exp()), to_matrix(scaled), to_matrix(centred_twice(scaled))};
}

// With s_ij the scores and l_i = log g_i, scaled_ij = exp(s_ij - l_i - l_j): for G the gradient with respect to
// `scaled` times `scaled`, ds = G - P (row sums of G + column sums of G), P = exp(s - l) the softmax.
Matrix gram_gradient(const Matrix& k, const Matrix& cotangent) {
  const Index N = k.shape()[0];
  require_shape(cotangent, N, N, "the cotangent");
  const Dense s = scores(k, k);
  const Eigen::VectorXd log_g = log_sums(s);
  const Dense P = (s.colwise() - log_g).array().exp();
  const Dense scaled = P.array().rowwise() * (-log_g).array().exp().transpose();
  const Dense G = centred_twice(mapped(cotangent)).cwiseProduct(scaled);
  const Eigen::VectorXd sums = G.rowwise().sum() + G.colwise().sum().transpose();
  const Dense ds = G.array() - P.array().colwise() * sums.array();
  return to_matrix((ds + ds.transpose()) * mapped(k) / std::sqrt(static_cast<double>(k.shape()[1])));
}

Matrix standardised(const Matrix& x, double eps) {
  require(x.shape()[1] > 1, fmt::format("a standard deviation needs two features, found {}", x.shape()[1]));
  const Dense centre = mapped(x).colwise() - mapped(x).rowwise().mean();
  const Eigen::VectorXd deviation =
      (centre.rowwise().squaredNorm() / static_cast<double>(x.shape()[1] - 1)).cwiseSqrt();
  return to_matrix(centre.array().colwise() / (deviation.array() + eps));
}

Matrix standardised_gradient(const Matrix& x, const Matrix& cotangent, double eps) {
  require(x.shape()[1] > 1, fmt::format("a standard deviation needs two features, found {}", x.shape()[1]));
  require_shape(cotangent, x.shape()[0], x.shape()[1], "the cotangent");
  const double free = static_cast<double>(x.shape()[1] - 1);
  Dense gradient = mapped(cotangent);
  for (Index i = 0; i < gradient.rows(); ++i) {
    const Eigen::RowVectorXd centre = mapped(x).row(i).array() - mapped(x).row(i).mean();
    const double deviation = std::sqrt(centre.squaredNorm() / free), divisor = deviation + eps;
    const double along = gradient.row(i).dot(centre) / (divisor * divisor * deviation * free);
    gradient.row(i) = (gradient.row(i).array() - gradient.row(i).mean()).matrix() / divisor - along * centre;
  }
  return to_matrix(gradient);
}

Axes axes(const Gram& gram, Index count, Normalisation normalisation) {
  const Index N = gram.g.size();
  require(count >= 1 && count <= N, fmt::format("{} axes are asked for, {} keys have 1 to {}", count, N, N));
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(mapped(gram.centred));
  require(solver.info() == Eigen::Success,
          "the eigenvalues of the centred Gram matrix were not found: are all keys finite?");
  // Rising in Eigen, falling here.
  const Eigen::VectorXd eigenvalues = solver.eigenvalues().reverse().head(count);
  Dense a = solver.eigenvectors().rowwise().reverse().leftCols(count);
  for (Index d = 0; d < count; ++d) {
    Index largest = 0;
    a.col(d).cwiseAbs().maxCoeff(&largest);
    if (a(largest, d) < 0) a.col(d) *= -1;
  }
  if (normalisation == Normalisation::kpca) {
    // What is left of equal keys after centring is rounding of the Gram matrix before it.
    const double rounding =
        std::numeric_limits<double>::epsilon() * static_cast<double>(N) * mapped(gram.scaled).trace();
    const Index positive = (eigenvalues.array() > rounding).count();
    if (positive < count)
      throw InvalidArgument(
          fmt::format("[kpca_value] {} axes of length 1 are asked for, {} eigenvalues are positive", count, positive),
          fmt::format("ask for at most {}, or take the unit normalisation", positive));
    a = a.array().rowwise() / eigenvalues.transpose().array().sqrt();
  }
  const Dense values = without_mean(a).array().colwise() * (-mapped(gram.log_g)).array().exp();
  return {to_vector(eigenvalues), to_vector(eigenvalues / static_cast<double>(N)), to_matrix(a), to_matrix(values)};
}

Matrix attention(const Matrix& q, const Matrix& k, const Matrix& values) {
  require(values.shape()[0] == k.shape()[0],
          fmt::format("{} values are given for {} keys", values.shape()[0], k.shape()[0]));
  const Dense s = scores(q, k);
  return to_matrix((s.colwise() - log_sums(s)).array().exp().matrix() * mapped(values));
}

// <phi(q_i)/g(q_i), phi(k_j)/g_j - mean> = exp(s_ij - log g(q_i) - log g_j) less its mean over j.
Matrix projections(const Matrix& q, const Matrix& k, const Gram& gram, const Matrix& coefficients) {
  require(coefficients.shape()[0] == k.shape()[0] && gram.log_g.size() == k.shape()[0],
          fmt::format("{} coefficients and a Gram matrix of {} keys are given for {} keys", coefficients.shape()[0],
                      gram.log_g.size(), k.shape()[0]));
  const Dense s = scores(q, k);
  const Dense inner = ((s.colwise() - log_sums(s)).rowwise() - mapped(gram.log_g).transpose()).array().exp();
  const Dense centred = inner.colwise() - inner.rowwise().mean();
  return to_matrix(centred * mapped(coefficients));
}

Vector squared_norms(const Matrix& q, const Matrix& k) {
  const Eigen::VectorXd own = mapped(q).rowwise().squaredNorm() / std::sqrt(static_cast<double>(q.shape()[1]));
  return to_vector((own - 2 * log_sums(scores(q, k))).array().exp());
}

Vector reconstruction_errors(const Vector& squared_norms, const Matrix& projections) {
  require(squared_norms.size() == projections.shape()[0],
          fmt::format("{} norms are given for projections of {}", squared_norms.size(), projections.shape()[0]));
  return to_vector(mapped(squared_norms) - mapped(projections).rowwise().squaredNorm());
}

}  // namespace saddle::mechanisms::kpca_value
