#include "saddle/eval/ridge.hpp"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"

namespace saddle::eval {

namespace {

using Eigen::MatrixXd;
using Eigen::RowVectorXd;
using Eigen::VectorXd;

constexpr Index leave_one_out_limit = 2000;
constexpr Index piece = 2048;  // samples or features that are turned into doubles at a time

// The regression with features and targets centred, which takes the offset out of it.
struct Centred {
  const Features& x;
  RowVectorXd mean;         // [F]
  MatrixXd targets;         // [n, classes]
  RowVectorXd target_mean;  // [classes]

  Centred(const Features& features, std::span<const Index> labels, Index classes)
      : x(features), mean(RowVectorXd::Zero(features.cols())), targets(features.rows(), classes) {
    for (Index i = 0; i < x.rows(); ++i) mean += x.row(i).cast<double>();
    mean /= static_cast<double>(x.rows());
    targets.setConstant(-1);
    for (Index i = 0; i < x.rows(); ++i) targets(i, labels[static_cast<std::size_t>(i)]) = 1;
    target_mean = targets.colwise().mean();
    targets.rowwise() -= target_mean;
  }

  MatrixXd rows(Index begin, Index count) const { return x.middleRows(begin, count).cast<double>().rowwise() - mean; }
  MatrixXd columns(Index begin, Index count) const {
    return x.middleCols(begin, count).cast<double>().rowwise() - mean.segment(begin, count);
  }
  // Fewer samples than features: the solution is a combination of the samples, found from their products.
  bool dual() const { return x.rows() < x.cols(); }
};

// gram += a^T a, the lower triangle. Every block of columns has one owner, so the bits do not depend on the threads.
void add_products(const MatrixXd& a, MatrixXd& gram) {
  constexpr Index block = 96;
  const Index size = a.cols();
  parallel_for((size + block - 1) / block, 1,
               [&](Index b) {
                 const Index begin = b * block, width = std::min(block, size - begin), below = size - begin;
                 gram.block(begin, begin, below, width).noalias() +=
                     a.rightCols(below).transpose() * a.middleCols(begin, width);
               },
               {Schedule::dynamic});
}

// Products of all samples [n,n] if dual, of all features [F,F] if not; and what stands on the right of the equation.
struct Equations {
  MatrixXd gram, right;

  explicit Equations(const Centred& data) {
    const Index n = data.x.rows(), F = data.x.cols(), size = std::min(n, F);
    gram.setZero(size, size);
    if (data.dual()) {
      right = data.targets;
      for (Index begin = 0; begin < F; begin += piece)
        add_products(data.columns(begin, std::min(piece, F - begin)).transpose(), gram);
    } else {
      right.setZero(F, data.targets.cols());
      for (Index begin = 0; begin < n; begin += piece) {
        const MatrixXd rows = data.rows(begin, std::min(piece, n - begin));
        add_products(rows, gram);
        right.noalias() += rows.transpose() * data.targets.middleRows(begin, rows.rows());
      }
    }
  }
};

Ridge ridge_at(const Centred& data, const Equations& equations, double penalty) {
  MatrixXd shifted = equations.gram;
  shifted.diagonal().array() += penalty;
  const Eigen::LLT<Eigen::Ref<MatrixXd>> factor(shifted);
  if (factor.info() != Eigen::Success)
    throw InvalidArgument("ridge: features of such different sizes cannot be regressed on", "scale them first");
  const MatrixXd solution = factor.solve(equations.right);
  Ridge ridge{solution, {}, penalty};
  if (data.dual()) {
    ridge.weights.resize(data.x.cols(), solution.cols());
    for (Index begin = 0; begin < data.x.cols(); begin += piece) {
      const Index count = std::min(piece, data.x.cols() - begin);
      ridge.weights.middleRows(begin, count).noalias() = data.columns(begin, count).transpose() * solution;
    }
  }
  ridge.offset = data.target_mean - data.mean * ridge.weights;
  return ridge;
}

MatrixXd scores_of(const Ridge& ridge, const Features& x) {
  MatrixXd scores(x.rows(), ridge.offset.size());
  parallel_for(x.rows(), 256, [&](Index begin, Index end) {
    scores.middleRows(begin, end - begin).noalias() = x.middleRows(begin, end - begin).cast<double>() * ridge.weights;
    scores.middleRows(begin, end - begin).rowwise() += ridge.offset;
  });
  return scores;
}

std::size_t smallest(const std::vector<double>& errors) {
  return static_cast<std::size_t>(std::min_element(errors.begin(), errors.end()) - errors.begin());
}

// The mean squared error on the samples held out, for every penalty.
std::vector<double> held_out_errors(const Features& x, std::span<const Index> labels, Index classes,
                                    const data::Split& split, std::span<const double> penalties) {
  const Features held = rows_of(x, split.validation);
  std::vector<double> errors;
  for (const Ridge& ridge : solve_ridge(rows_of(x, split.train), labels_of(labels, split.train), classes, penalties)) {
    MatrixXd error = scores_of(ridge, held);
    error.array() += 1;
    for (Index i = 0; i < held.rows(); ++i)
      error(i, labels[static_cast<std::size_t>(split.validation[static_cast<std::size_t>(i)])]) -= 2;
    errors.push_back(error.squaredNorm() / static_cast<double>(error.size()));
  }
  return errors;
}

// Columns in which not all values are equal; one column if there is none.
std::vector<Index> varying_columns(const Features& x) {
  Eigen::Array<bool, 1, Eigen::Dynamic> varies = Eigen::Array<bool, 1, Eigen::Dynamic>::Constant(x.cols(), false);
  for (Index i = 1; i < x.rows(); ++i) varies = varies || (x.row(i).array() != x.row(0).array());
  std::vector<Index> columns;
  for (Index j = 0; j < x.cols(); ++j)
    if (varies[j]) columns.push_back(j);
  if (columns.empty()) columns.push_back(0);
  return columns;
}

}  // namespace

std::vector<Index> Ridge::predict(const Features& x) const {
  const MatrixXd scores = scores_of(*this, x);
  std::vector<Index> predicted(static_cast<std::size_t>(x.rows()));
  for (Index i = 0; i < x.rows(); ++i) scores.row(i).maxCoeff(&predicted[static_cast<std::size_t>(i)]);
  return predicted;
}

std::vector<double> ridge_penalties() {
  std::vector<double> penalties;
  for (int i = 0; i < 10; ++i) penalties.push_back(std::pow(10.0, -3 + 6.0 * i / 9));
  return penalties;
}

std::vector<Ridge> solve_ridge(const Features& x, std::span<const Index> labels, Index classes,
                               std::span<const double> penalties) {
  const Centred data(x, labels, classes);
  const Equations equations(data);
  std::vector<Ridge> all(penalties.size());
  parallel_for(static_cast<Index>(all.size()), 1, [&](Index i) {
    const auto at = static_cast<std::size_t>(i);
    all[at] = ridge_at(data, equations, penalties[at]);
  });
  return all;
}

std::vector<double> leave_one_out_errors(const Features& x, std::span<const Index> labels, Index classes,
                                         std::span<const double> penalties) {
  if (x.rows() < 2) throw InvalidArgument("ridge: leave-one-out needs two samples or more");
  const Centred data(x, labels, classes);
  const Equations equations(data);
  const Eigen::SelfAdjointEigenSolver<MatrixXd> decomposition(equations.gram);
  const VectorXd values = decomposition.eigenvalues().cwiseMax(0);
  const MatrixXd& vectors = decomposition.eigenvectors();
  const MatrixXd right = vectors.transpose() * equations.right;
  // Rows of the basis belong to samples in either form.
  const MatrixXd basis = data.dual() ? vectors : MatrixXd(data.rows(0, x.rows()) * vectors);
  const MatrixXd squares = basis.cwiseAbs2();
  const auto n = static_cast<double>(x.rows());
  std::vector<double> errors;
  for (const double penalty : penalties) {
    const VectorXd inverse = (values.array() + penalty).inverse();
    MatrixXd error = basis * (inverse.asDiagonal() * right);
    VectorXd rest = squares * inverse;
    // The residual, and how much of it a sample that takes part leaves: 1 - leverage, where 1/n is the offset's.
    if (data.dual()) {
      error *= penalty;
      rest = penalty * rest.array() - 1 / n;
    } else {
      error = data.targets - error;
      rest = 1 - 1 / n - rest.array();
    }
    error.array().colwise() /= rest.array();
    errors.push_back(error.squaredNorm() / static_cast<double>(error.size()));
  }
  return errors;
}

Ridge fit_ridge(const Features& x, std::span<const Index> labels, Index classes, const data::Split& split) {
  // Features that never vary get weight 0 in any case. Tables and images have many, and time grows with their square.
  const std::vector<Index> columns = varying_columns(x);
  const Features varying = x(Eigen::all, columns);
  const std::vector<double> penalties = ridge_penalties();
  const std::vector<double> errors = x.rows() <= leave_one_out_limit
                                         ? leave_one_out_errors(varying, labels, classes, penalties)
                                         : held_out_errors(varying, labels, classes, split, penalties);
  const std::vector<double> chosen{penalties[smallest(errors)]};
  Ridge ridge = solve_ridge(varying, labels, classes, chosen).front();
  MatrixXd weights = MatrixXd::Zero(x.cols(), classes);
  weights(columns, Eigen::all) = ridge.weights;
  ridge.weights = std::move(weights);
  return ridge;
}

}  // namespace saddle::eval
