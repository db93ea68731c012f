// The minimum of the action: Newton's method with conjugate gradients in a trust region.
//
// Around U = R R^T steps are written U' = R (I + S) R^T. The distances |S|_F are those that logdet sees, so the problem
// is well scaled, and while |S|_F < 1 no step leaves the positive definite matrices.
#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>

#include "saddle/analysis/attention_paths/action_internal.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"

namespace saddle::analysis::attention_paths {

namespace {

using Eigen::MatrixXd;

constexpr double widest = 0.9;  // trust radius

MatrixXd to_eigen(const Matrix& m) {
  return Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
      m.data(), m.shape()[0], m.shape()[1]);
}

Matrix to_matrix(const MatrixXd& m) {
  Matrix copy({m.rows(), m.cols()});
  for (Index i = 0; i < m.rows(); ++i)
    for (Index j = 0; j < m.cols(); ++j) copy(i, j) = m(i, j);
  return copy;
}

// The symmetric parts; throws InvalidArgument for sizes that are not those of the prior.
Symmetric symmetric_parts(const OrderParameters& u, const Prior& prior) {
  if (static_cast<Index>(u.size()) != prior.layers())
    throw InvalidArgument("attention_paths: " + std::to_string(prior.layers()) +
                          " layers have as many order parameters, found " + std::to_string(u.size()));
  Symmetric result;
  for (std::size_t l = 0; l < u.size(); ++l) {
    const Index n = order_size(prior, static_cast<Index>(l));
    if (u[l].shape()[0] != n || u[l].shape()[1] != n)
      throw InvalidArgument("attention_paths: the order parameter of layer " + std::to_string(l + 1) + " must be " +
                            std::to_string(n) + " by " + std::to_string(n) + ", found " +
                            std::to_string(u[l].shape()[0]) + " by " + std::to_string(u[l].shape()[1]));
    const MatrixXd m = to_eigen(u[l]);
    result.push_back((m + m.transpose()) / 2);
  }
  return result;
}

[[noreturn]] void not_definite() {
  throw InvalidArgument("attention_paths: an order parameter or the kernel is not positive definite",
                        "a temperature above 0 makes any kernel so");
}

double dot(const Symmetric& a, const Symmetric& b) {
  double sum = 0;
  for (std::size_t l = 0; l < a.size(); ++l) sum += a[l].cwiseProduct(b[l]).sum();
  return sum;
}

// a + factor b
Symmetric sum_of(Symmetric a, double factor, const Symmetric& b) {
  for (std::size_t l = 0; l < a.size(); ++l) a[l] += factor * b[l];
  return a;
}

// left^T m right of every layer.
Symmetric congruent(const Symmetric& r, const Symmetric& m, bool transposed) {
  Symmetric result;
  for (std::size_t l = 0; l < m.size(); ++l)
    result.push_back(transposed ? MatrixXd(r[l].transpose() * m[l] * r[l]) : MatrixXd(r[l] * m[l] * r[l].transpose()));
  return result;
}

struct Step {
  Symmetric s;
  double predicted = 0;  // change of the quadratic model, below 0
  bool at_border = false;
};

// Steihaug's method: conjugate gradients for the model until it is solved, turns out not convex, or leaves the region.
Step solve_model(const ActionFunction& function, const ActionPoint& point, const Symmetric& r, const Symmetric& g,
                 double radius) {
  const auto curvature = [&](const Symmetric& s) {
    return congruent(r, function.hessian_times(point, congruent(r, s, false)), true);
  };
  const double size = std::sqrt(dot(g, g));
  const double enough = std::min(0.1, size) * size;
  Step step;
  for (const MatrixXd& each : g) step.s.push_back(MatrixXd::Zero(each.rows(), each.cols()));
  Symmetric residual = g, direction = sum_of(step.s, -1, g), curved = step.s;  // curved: the Hessian times step.s
  const auto to_border = [&] {
    const double ss = dot(step.s, step.s), sd = dot(step.s, direction), dd = dot(direction, direction);
    return (-sd + std::sqrt(sd * sd + dd * (radius * radius - ss))) / dd;
  };
  Index unknowns = 0;
  for (const MatrixXd& each : g) unknowns += each.rows() * (each.rows() + 1) / 2;
  double rr = dot(residual, residual);
  for (Index i = 0; i < 2 * unknowns + 10 && std::sqrt(rr) > enough; ++i) {
    const Symmetric bent = curvature(direction);
    const double bend = dot(direction, bent);
    double along = bend > 0 ? rr / bend : 0;
    const Symmetric next = sum_of(step.s, along, direction);
    step.at_border = !(bend > 0) || dot(next, next) >= radius * radius;
    if (step.at_border) along = to_border();
    step.s = sum_of(step.s, along, direction);
    curved = sum_of(curved, along, bent);
    residual = sum_of(residual, along, bent);
    if (step.at_border) break;
    const double before = rr;
    rr = dot(residual, residual);
    direction = sum_of(sum_of(direction, rr / before - 1, direction), -1, residual);
  }
  step.predicted = dot(g, step.s) + dot(step.s, curved) / 2;
  return step;
}

// The smallest eigenvalue with respect to the upper triangles.
double smallest_curvature(const ActionFunction& function, const ActionPoint& point) {
  struct Entry {
    std::size_t layer;
    Index i, j;
  };
  std::vector<Entry> entries;
  for (std::size_t l = 0; l < point.u.size(); ++l)
    for (Index i = 0; i < point.u[l].rows(); ++i)
      for (Index j = i; j < point.u[l].rows(); ++j) entries.push_back({l, i, j});
  const auto n = static_cast<Index>(entries.size());
  MatrixXd hessian(n, n);
  parallel_for(n, 1, [&](Index c) {
    const Entry& moved = entries[static_cast<std::size_t>(c)];
    Symmetric direction;
    for (const MatrixXd& each : point.u) direction.push_back(MatrixXd::Zero(each.rows(), each.cols()));
    direction[moved.layer](moved.i, moved.j) = direction[moved.layer](moved.j, moved.i) = 1;
    const Symmetric change = function.hessian_times(point, direction);
    for (Index row = 0; row < n; ++row) {
      const Entry& e = entries[static_cast<std::size_t>(row)];
      hessian(row, c) = (e.i == e.j ? 1 : 2) * change[e.layer](e.i, e.j);
    }
  });
  return Eigen::SelfAdjointEigenSolver<MatrixXd>(hessian, Eigen::EigenvaluesOnly).eigenvalues()(0);
}

Index unknowns_of(const Symmetric& u) {
  Index n = 0;
  for (const MatrixXd& each : u) n += each.rows() * (each.rows() + 1) / 2;
  return n;
}

}  // namespace

OrderParameters gp_order_parameters(const Prior& prior) {
  OrderParameters u;
  const Index L = prior.layers();
  if (static_cast<Index>(prior.variances.size()) != L + 2)
    throw InvalidArgument("attention_paths: " + std::to_string(L) + " layers need " + std::to_string(L + 2) +
                          " variances, found " + std::to_string(prior.variances.size()));
  double value = prior.variances.back();
  for (Index l = L - 1; l >= 0; --l) {
    value *= prior.variances[static_cast<std::size_t>(l + 1)];
    const Index n = order_size(prior, l);
    Matrix identity({n, n});
    for (Index i = 0; i < n; ++i) identity(i, i) = value;
    u.insert(u.begin(), std::move(identity));
  }
  return u;
}

Action action(const Array<double, 3>& xi, const Vector& y, const Prior& prior, const OrderParameters& u) {
  validate(prior, xi, y);
  const auto point = ActionFunction(xi, y, prior).at(symmetric_parts(u, prior));
  if (!point) not_definite();
  Action result{point->energy, point->entropy, point->ua, {}};
  for (const MatrixXd& g : point->gradient) result.gradient.push_back(to_matrix(g));
  return result;
}

Minimum minimise(const Array<double, 3>& xi, const Vector& y, const Prior& prior, const MinimumOptions& options,
                 OrderParameters start) {
  validate(prior, xi, y);
  if (start.empty()) start = gp_order_parameters(prior);
  const ActionFunction function(xi, y, prior);
  auto point = function.at(symmetric_parts(start, prior));
  if (!point) not_definite();
  Minimum result;
  double radius = 0.5;
  for (; result.steps < options.steps && point->gradient_max() > options.tolerance; ++result.steps) {
    Symmetric r;
    for (const MatrixXd& each : point->u) r.push_back(Eigen::LLT<MatrixXd>(each).matrixL());
    const Step step = solve_model(function, *point, r, congruent(r, point->gradient, true), radius);
    auto next = function.at(sum_of(point->u, 1, congruent(r, step.s, false)));
    // Differences of the action below its rounding say nothing; there the gradient decides.
    const double noise = 1e-13 * std::max(1.0, std::fabs(point->value()));
    if (-step.predicted < noise) {
      if (!next || next->gradient_max() >= point->gradient_max()) break;
      point = std::move(next);
      continue;
    }
    const double ratio = next ? (next->value() - point->value()) / step.predicted : -1;
    if (ratio < 0.25) radius *= 0.25;
    if (ratio > 0.75 && step.at_border) radius = std::min(2 * radius, widest);
    if (ratio > 1e-4) point = std::move(next);
    if (radius < 1e-12) break;
  }
  for (const MatrixXd& each : point->u) result.u.push_back(to_matrix(each));
  result.energy = point->energy;
  result.entropy = point->entropy;
  result.ua = point->ua;
  result.gradient_max = point->gradient_max();
  result.converged = result.gradient_max <= std::max(options.tolerance, 1e-9);
  result.min_hessian_eigenvalue = unknowns_of(point->u) <= options.hessian_size
                                      ? smallest_curvature(function, *point)
                                      : std::numeric_limits<double>::quiet_NaN();
  return result;
}

}  // namespace saddle::analysis::attention_paths
