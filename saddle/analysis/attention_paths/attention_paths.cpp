#include "saddle/analysis/attention_paths/attention_paths.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::analysis::attention_paths {

namespace {

using Dense = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using DenseMap = Eigen::Map<const Dense>;
using VectorMap = Eigen::Map<const Eigen::VectorXd>;

// The head of layer l in a path, which is a number with one digit per layer, the last layer fastest.
Index head_of(Index path, const std::vector<Index>& heads, Index layer) {
  for (Index l = static_cast<Index>(heads.size()) - 1; l > layer; --l) path /= heads[static_cast<std::size_t>(l)];
  return path % heads[static_cast<std::size_t>(layer)];
}

void require_paths(const Matrix& u, const std::vector<Index>& heads) {
  Index paths = heads.empty() ? 0 : 1;
  for (const Index H : heads) paths = H > 0 && paths <= 4096 / H ? paths * H : 0;
  if (paths == 0 || u.shape()[0] != paths || u.shape()[1] != paths)
    throw InvalidArgument("attention_paths: the heads make " + std::to_string(paths) + " paths, their weights are " +
                          std::to_string(u.shape()[0]) + " by " + std::to_string(u.shape()[1]));
}

}  // namespace

Prediction predict(const Array<double, 3>& xi, const Vector& y, const Array<double, 3>& test, const Matrix& u,
                   double temperature) {
  const Index P = xi.shape()[0], Q = test.shape()[0];
  if (y.shape()[0] != P)
    throw InvalidArgument("attention_paths: " + std::to_string(y.shape()[0]) + " labels for " + std::to_string(P) +
                          " examples");
  if (!(temperature >= 0))
    throw InvalidArgument("attention_paths: the temperature must not be negative, found " + format_number(temperature));
  const Matrix k = kernel(xi, xi, u), cross = kernel(xi, test, u), own = kernel(test, test, u);
  Eigen::MatrixXd train = DenseMap(k.data(), P, P);
  train.diagonal().array() += temperature;
  const Eigen::LLT<Eigen::MatrixXd> factor(train);
  if (factor.info() != Eigen::Success)
    throw InvalidArgument("attention_paths: the kernel of the examples is not positive definite",
                          "a temperature above 0 makes it so");
  const Eigen::VectorXd alpha = factor.solve(VectorMap(y.data(), P));
  const DenseMap between(cross.data(), P, Q);
  const Eigen::MatrixXd half = factor.matrixL().solve(between);
  Prediction prediction{Vector({Q}), Vector({Q})};
  for (Index q = 0; q < Q; ++q) {
    prediction.mean(q) = between.col(q).dot(alpha);
    prediction.variance(q) = own(q, q) - half.col(q).squaredNorm();
  }
  return prediction;
}

std::vector<HeadScore> head_scores(const Matrix& u, const std::vector<Index>& heads) {
  require_paths(u, heads);
  std::vector<HeadScore> scores;
  double largest = 0;
  for (Index l = 0; l < static_cast<Index>(heads.size()); ++l)
    for (Index h = 0; h < heads[static_cast<std::size_t>(l)]; ++h) {
      double sum = 0;
      for (Index i = 0; i < u.shape()[0]; ++i)
        for (Index j = 0; j < u.shape()[1]; ++j)
          if (head_of(i, heads, l) == h || head_of(j, heads, l) == h) sum += std::fabs(u(i, j));
      scores.push_back({l, h, sum, 0});
      largest = std::max(largest, sum);
    }
  for (HeadScore& score : scores) score.score = largest > 0 ? score.raw / largest : 0;
  return scores;
}

Matrix without_head(const Matrix& u, const std::vector<Index>& heads, Index layer, Index head) {
  require_paths(u, heads);
  if (layer < 0 || layer >= static_cast<Index>(heads.size()) || head < 0 ||
      head >= heads[static_cast<std::size_t>(layer)])
    throw InvalidArgument("attention_paths: there is no head " + std::to_string(head) + " in layer " +
                          std::to_string(layer));
  Matrix kept = u;
  for (Index i = 0; i < u.shape()[0]; ++i)
    for (Index j = 0; j < u.shape()[1]; ++j)
      if (head_of(i, heads, layer) == head || head_of(j, heads, layer) == head) kept(i, j) = 0;
  return kept;
}

Vector alignment(const Matrix& kernel, const Vector& y, Index count) {
  const Index P = kernel.shape()[0];
  if (kernel.shape()[1] != P || y.shape()[0] != P || count < 0 || count > P)
    throw InvalidArgument("attention_paths: " + std::to_string(count) + " components of a kernel of " +
                          std::to_string(P) + " by " + std::to_string(kernel.shape()[1]) + " examples with " +
                          std::to_string(y.shape()[0]) + " labels were asked for");
  const Eigen::MatrixXd k = DenseMap(kernel.data(), P, P);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> decomposition((k + k.transpose()) / 2);
  Vector overlap({count});
  for (Index i = 0; i < count; ++i)
    overlap(i) = std::fabs(decomposition.eigenvectors().col(P - 1 - i).dot(VectorMap(y.data(), P))) /
                 std::sqrt(static_cast<double>(P));
  return overlap;
}

const Analysis& analysis() {
  static const Analysis value = [] {
    Analysis own;
    own.name = "attention_paths";
    own.title = "Attention paths";
    own.summary =
        "what a network of finite width predicts without being trained, by paths of heads, and a score for every head";
    own.bibtex = R"(@inproceedings{tiberi2024dissecting,
  title     = {Dissecting the Interplay of Attention Paths in a Statistical Mechanics Theory of Transformers},
  author    = {Tiberi, Lorenzo and Mignacco, Francesca and Irie, Kazuki and Sompolinsky, Haim},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2024},
  note      = {arXiv:2405.15926}
})";
    own.golden = {{"attention-paths", check}};
    own.on_model = on_model;
    own.on_tensors = on_tensors;
    own.example = example;
    own.takes_tables = false;
    return own;
  }();
  return value;
}

}  // namespace saddle::analysis::attention_paths
