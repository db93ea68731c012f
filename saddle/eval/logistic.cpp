#include "saddle/eval/logistic.hpp"

#include <algorithm>
#include <cmath>
#include <deque>

#include "saddle/base/parallel.hpp"

namespace saddle::eval {

namespace {

using Eigen::MatrixXd;

constexpr Index piece = 512;  // samples of one partial sum
constexpr std::size_t memory = 10;
constexpr int most_steps = 300;
constexpr double tolerance = 1e-4;  // of the gradient; accuracies do not change below

MatrixXd scores_of(const MatrixXd& weights, const Features& x, Index begin, Index end) {
  const Index F = x.cols();
  MatrixXd scores = x.middleRows(begin, end - begin).cast<double>() * weights.topRows(F);
  scores.rowwise() += weights.row(F);
  return scores;
}

// Log loss of samples whose scores these are, summed; the scores become the derivatives of it.
double loss_and_slope(MatrixXd& scores, std::span<const Index> labels) {
  double loss = 0;
  for (Index i = 0; i < scores.rows(); ++i) {
    const Index label = labels[static_cast<std::size_t>(i)];
    const double largest = scores.row(i).maxCoeff();
    loss += largest - scores(i, label);
    scores.row(i) = (scores.row(i).array() - largest).exp();
    const double sum = scores.row(i).sum();
    loss += std::log(sum);
    scores.row(i) /= sum;
    scores(i, label) -= 1;
  }
  return loss;
}

struct Objective {
  const Features& x;
  std::span<const Index> labels;
  double penalty;

  // The value and, if asked for, its gradient [F + 1, classes]. Partial sums are added in the order of the samples.
  double operator()(const MatrixXd& weights, MatrixXd* gradient) const {
    const Index n = x.rows(), F = x.cols(), pieces = (n + piece - 1) / piece;
    std::vector<double> losses(static_cast<std::size_t>(pieces));
    std::vector<MatrixXd> slopes(gradient != nullptr ? static_cast<std::size_t>(pieces) : 0);
    parallel_for(pieces, 1, [&](Index p) {
      const Index begin = p * piece, end = std::min(n, begin + piece);
      MatrixXd scores = scores_of(weights, x, begin, end);
      const auto at = static_cast<std::size_t>(p);
      losses[at] = loss_and_slope(
          scores, labels.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
      if (gradient == nullptr) return;
      slopes[at].resize(F + 1, weights.cols());
      slopes[at].topRows(F).noalias() = x.middleRows(begin, end - begin).cast<double>().transpose() * scores;
      slopes[at].row(F) = scores.colwise().sum();
    });
    double loss = 0;
    for (const double part : losses) loss += part;
    const auto count = static_cast<double>(n);
    if (gradient != nullptr) {
      gradient->setZero(F + 1, weights.cols());
      for (const MatrixXd& slope : slopes) *gradient += slope;
      *gradient /= count;
      gradient->topRows(F) += penalty * weights.topRows(F);
    }
    return loss / count + penalty / 2 * weights.topRows(F).squaredNorm();
  }
};

double dot(const MatrixXd& a, const MatrixXd& b) { return a.cwiseProduct(b).sum(); }

// Steps of the last iterations and the changes of the gradient along them.
struct Pair {
  MatrixXd step, change;
};

// Minus the gradient times the inverse Hessian that the pairs tell of.
MatrixXd direction_of(const MatrixXd& gradient, const std::deque<Pair>& pairs) {
  MatrixXd direction = -gradient;
  std::vector<double> shares;
  for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
    shares.push_back(dot(pair->step, direction) / dot(pair->step, pair->change));
    direction -= shares.back() * pair->change;
  }
  if (!pairs.empty()) direction *= dot(pairs.back().step, pairs.back().change) / pairs.back().change.squaredNorm();
  for (const Pair& pair : pairs) {
    direction += (shares.back() - dot(pair.change, direction) / dot(pair.step, pair.change)) * pair.step;
    shares.pop_back();
  }
  return direction;
}

}  // namespace

std::vector<Index> Logistic::predict(const Features& x) const {
  const MatrixXd scores = scores_of(weights, x, 0, x.rows());
  std::vector<Index> predicted(static_cast<std::size_t>(x.rows()));
  for (Index i = 0; i < x.rows(); ++i) scores.row(i).maxCoeff(&predicted[static_cast<std::size_t>(i)]);
  return predicted;
}

double log_loss(const Logistic& model, const Features& x, std::span<const Index> labels) {
  return Objective{x, labels, 0}(model.weights, nullptr);
}

Logistic solve_logistic(const Features& x, std::span<const Index> labels, Index classes, double penalty,
                        const Logistic& start) {
  const Objective objective{x, labels, penalty};
  Logistic model{start.weights, penalty};
  if (model.weights.size() == 0) model.weights.setZero(x.cols() + 1, classes);
  MatrixXd gradient, next_gradient;
  double value = objective(model.weights, &gradient);
  std::deque<Pair> pairs;
  for (int step = 0; step < most_steps && gradient.norm() > tolerance; ++step) {
    const MatrixXd direction = direction_of(gradient, pairs);
    const double slope = dot(gradient, direction);
    double length = pairs.empty() ? std::min(1.0, 1 / gradient.norm()) : 1, next_value = 0;
    MatrixXd next;
    // Half the step until the value falls enough; where rounding hides the fall there is nothing left to gain.
    bool fell = false;
    for (int halved = 0; halved < 30 && !fell; ++halved, length /= 2) {
      next = model.weights + length * direction;
      next_value = objective(next, &next_gradient);
      fell = next_value <= value + 1e-4 * length * slope;
    }
    if (!fell) break;
    Pair pair{next - model.weights, next_gradient - gradient};
    if (dot(pair.step, pair.change) > 0) pairs.push_back(std::move(pair));
    if (pairs.size() > memory) pairs.pop_front();
    model.weights = std::move(next);
    std::swap(gradient, next_gradient);
    value = next_value;
  }
  return model;
}

Logistic fit_logistic(const Features& x, std::span<const Index> labels, Index classes, const data::Split& split) {
  const Features train = rows_of(x, split.train), held = rows_of(x, split.validation);
  const std::vector<Index> train_labels = labels_of(labels, split.train),
                           held_labels = labels_of(labels, split.validation);
  Logistic model;
  double best_penalty = 0.1, least = INFINITY;
  // From the strongest penalty towards the weakest, each going on from the one before, until the loss rises.
  for (const double penalty : {1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6}) {
    if (held.rows() == 0) break;
    model = solve_logistic(train, train_labels, classes, penalty, model);
    const double loss = log_loss(model, held, held_labels);
    if (loss >= least) break;
    least = loss;
    best_penalty = penalty;
  }
  return solve_logistic(x, labels, classes, best_penalty);
}

}  // namespace saddle::eval
