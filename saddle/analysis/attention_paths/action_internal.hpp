// The action of the order parameters with its gradient and the product of its Hessian with a direction.
#pragma once

#include <Eigen/Core>
#include <optional>
#include <vector>

#include "saddle/analysis/attention_paths/attention_paths.hpp"

namespace saddle::analysis::attention_paths {

using Symmetric = std::vector<Eigen::MatrixXd>;  // one symmetric matrix per layer, as order parameters

// xi [P,N0,Pi] with the features of a path side by side: [P,N0 Pi], and the same memory as [P N0,Pi].
class PathInput {
 public:
  explicit PathInput(const Array<double, 3>& xi);
  Index examples() const { return blocks_.rows(); }
  Index paths() const { return paths_; }
  const Eigen::MatrixXd& blocks() const { return blocks_; }
  // [P,Q]
  Eigen::MatrixXd kernel(const PathInput& other, const Eigen::MatrixXd& u) const;
  // <xi_pi, m xi_pi'> over examples and features [Pi,Pi], for symmetric m [P,P]
  Eigen::MatrixXd contract(const Eigen::MatrixXd& m) const;

 private:
  Index paths_;
  Eigen::MatrixXd blocks_;
};

// Throws InvalidArgument unless lengths and values make sense and belong to xi and y.
void validate(const Prior& prior, const Array<double, 3>& xi, const Vector& y);
// n of U_l [n,n], l from 0.
Index order_size(const Prior& prior, Index layer);

// Everything about one set of order parameters.
struct ActionPoint {
  Symmetric u, inverse, gradient;
  Eigen::MatrixXd precision;    // inverse of kernel + temperature [P,P]
  Eigen::VectorXd alpha;        // precision times labels [P]
  double ua = 0, ua_slope = 0;  // and its derivative with respect to the trace of U_L
  double energy = 0, entropy = 0;

  double value() const { return energy + entropy; }
  double gradient_max() const;
};

class ActionFunction {
 public:
  ActionFunction(const Array<double, 3>& xi, const Vector& y, const Prior& prior);
  // Nothing if some matrix is not positive definite.
  std::optional<ActionPoint> at(const Symmetric& u) const;
  // The change of the gradient along a direction.
  Symmetric hessian_times(const ActionPoint& point, const Symmetric& direction) const;

 private:
  // Kernel and contraction of the examples among themselves, for symmetric matrices.
  Eigen::MatrixXd kernel(const Eigen::MatrixXd& u) const;
  Eigen::MatrixXd contract(const Eigen::MatrixXd& m) const;
  bool add_energy(ActionPoint& point) const;
  void add_entropy(ActionPoint& point, const std::vector<double>& logdet) const;

  PathInput input_;
  // Kernels of pairs of paths [P(P+1)/2,Pi(Pi+1)/2], lower triangles row by row, both orders of two paths added: with
  // them kernel and contraction cost no more than reading them. Empty where they would take too much memory.
  Eigen::MatrixXd pairs_;
  Eigen::VectorXd y_;
  Prior prior_;
  double scale_;  // largest width
};

}  // namespace saddle::analysis::attention_paths
