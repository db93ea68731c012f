#include "saddle/mechanisms/primal_attention/spectrum.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <functional>

namespace saddle::mechanisms::primal_attention {

namespace {

using tape::Value;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// x [N,K] -> [min(N,K),K], the same up to a rotation of its columns in R^N, which no singular value notices.
Matrix triangle(const Eigen::Map<const Matrix>& x) {
  if (x.rows() <= x.cols()) return x;
  return Eigen::HouseholderQR<Matrix>(x).matrixQR().topRows(x.cols()).triangularView<Eigen::Upper>();
}

// left, right [B,H,N,K] -> [B,H,min(N,K)], singular values of left right'.
Value singular_values(const Value& left, const Value& right) {
  const Index B = left.size(0), H = left.size(1), N = left.size(2), K = left.size(3), count = std::min(N, K);
  std::vector<double> values;
  for (Index head = 0; head < B * H; ++head) {
    const auto matrix = [&](const Value& x) {
      return triangle(Eigen::Map<const Matrix>(x.data().data() + head * N * K, N, K));
    };
    const Eigen::VectorXd found = Eigen::JacobiSVD<Matrix>(matrix(left) * matrix(right).transpose()).singularValues();
    values.insert(values.end(), found.begin(), found.end());
  }
  return {{B, H, count}, std::move(values)};
}

}  // namespace

Value learned_spectrum(const Value& escore, const Value& rscore, const Value& lambda) {
  const Value weight = tape::square(tape::reshape(lambda, {lambda.size(0), 1, lambda.size(1)}));
  return singular_values(escore * weight * Value(1 / static_cast<double>(escore.size(2))), rscore);
}

Value stationary_spectrum(const Value& lambda, Index N) {
  std::vector<double> values(lambda.data());
  for (double& value : values) value = static_cast<double>(N) / (value * value);
  const Index s = lambda.size(1);
  for (auto head = values.begin(); head != values.end(); head += s) std::sort(head, head + s, std::greater<>());
  return {lambda.shape(), std::move(values)};
}

Value kernel_spectrum(const Value& phi_q, const Value& phi_k, const Value& sample) {
  if (!sample) return singular_values(phi_q, phi_k);
  return singular_values(tape::matmul(phi_q, tape::matmul(tape::transpose(sample, 2, 3), sample)), phi_k);
}

}  // namespace saddle::mechanisms::primal_attention
