#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "saddle/analysis/attention_paths/action_internal.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::analysis::attention_paths {

namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

std::size_t at_index(Index i) { return static_cast<std::size_t>(i); }

void require(bool holds, const std::string& message, const std::string& hint = "") {
  if (!holds) throw InvalidArgument("attention_paths: " + message, hint);
}

// Sum of the diagonal blocks [r,r] of u: the partial trace over the head of a layer, which is the slow index.
MatrixXd partial_trace(const MatrixXd& u, Index heads) {
  const Index r = u.rows() / heads;
  MatrixXd sum = MatrixXd::Zero(r, r);
  for (Index h = 0; h < heads; ++h) sum += u.block(h * r, h * r, r, r);
  return sum;
}

// Its adjoint: v on every diagonal block.
void add_to_blocks(MatrixXd& u, const MatrixXd& v, Index heads, double factor) {
  const Index r = v.rows();
  for (Index h = 0; h < heads; ++h) u.block(h * r, h * r, r, r) += factor * v;
}

// The lower triangle of a symmetric matrix, row by row, entries outside the diagonal times a factor; and back.
VectorXd packed(const MatrixXd& m, double factor) {
  VectorXd entries(m.rows() * (m.rows() + 1) / 2);
  for (Index i = 0, at = 0; i < m.rows(); ++i)
    for (Index j = 0; j <= i; ++j) entries(at++) = (i == j ? 1 : factor) * m(i, j);
  return entries;
}

MatrixXd unpacked(const VectorXd& entries, Index n, double factor) {
  MatrixXd m(n, n);
  for (Index i = 0, at = 0; i < n; ++i)
    for (Index j = 0; j <= i; ++j) m(i, j) = m(j, i) = (i == j ? 1 : factor) * entries(at++);
  return m;
}

constexpr Index most_pairs = Index{1} << 25;  // 256 MB

MatrixXd pairs_of(const PathInput& input) {
  const Index P = input.examples(), Pi = input.paths();
  const Index examples = P * (P + 1) / 2, paths = Pi * (Pi + 1) / 2;
  if (P == 0 || examples > most_pairs / paths || Pi * Pi > 2 * input.blocks().cols()) return {};
  const Index N0 = input.blocks().cols() / Pi;
  MatrixXd pairs(examples, paths);
  for (Index i = 0, at = 0; i < Pi; ++i)
    for (Index j = 0; j <= i; ++j) {
      MatrixXd both = input.blocks().middleCols(i * N0, N0) * input.blocks().middleCols(j * N0, N0).transpose();
      if (i != j) both += both.transpose().eval();
      pairs.col(at++) = packed(both, 1);
    }
  return pairs;
}

double logdet_of(const Eigen::LLT<MatrixXd>& factor) {
  return 2 * factor.matrixL().toDenseMatrix().diagonal().array().log().sum();
}

}  // namespace

Index Prior::paths() const { return order_size(*this, 0); }

Index order_size(const Prior& prior, Index layer) {
  Index n = 1;
  for (Index l = layer; l < prior.layers(); ++l) n *= prior.heads[at_index(l)];
  return n;
}

void validate(const Prior& prior, const Array<double, 3>& xi, const Vector& y) {
  const Index L = prior.layers();
  require(L > 0, "there are no layers");
  require(static_cast<Index>(prior.widths.size()) == L + 1,
          std::to_string(L) + " layers need " + std::to_string(L + 1) + " widths, found " +
              std::to_string(prior.widths.size()),
          "the last one is that of the readout");
  require(static_cast<Index>(prior.variances.size()) == L + 2,
          std::to_string(L) + " layers need " + std::to_string(L + 2) + " variances, found " +
              std::to_string(prior.variances.size()),
          "input projection, layers, readout");
  Index paths = 1;
  for (const Index H : prior.heads) {
    require(H > 0 && paths <= 4096 / H, "the heads must make 1 to 4096 paths");
    paths *= H;
  }
  for (const Index width : prior.widths) require(width > 0, "a width is " + std::to_string(width));
  for (const double s : prior.variances)
    require(s > 0 && std::isfinite(s), "a variance must be above 0, found " + format_number(s));
  require(prior.temperature >= 0 && std::isfinite(prior.temperature),
          "the temperature must not be negative, found " + format_number(prior.temperature));
  require(xi.shape()[2] == paths, "the attended input has " + std::to_string(xi.shape()[2]) +
                                      " paths, the heads make " + std::to_string(paths));
  require(y.shape()[0] == xi.shape()[0],
          std::to_string(y.shape()[0]) + " labels for " + std::to_string(xi.shape()[0]) + " examples");
  require(std::all_of(xi.begin(), xi.end(), [](double v) { return std::isfinite(v); }) &&
              std::all_of(y.begin(), y.end(), [](double v) { return std::isfinite(v); }),
          "inputs and labels must be finite");
}

PathInput::PathInput(const Array<double, 3>& xi)
    : paths_(xi.shape()[2]), blocks_(xi.shape()[0], xi.shape()[1] * xi.shape()[2]) {
  const auto [P, N0, Pi] = xi.shape();
  for (Index p = 0; p < P; ++p)
    for (Index i = 0; i < N0; ++i)
      for (Index path = 0; path < Pi; ++path) blocks_(p, path * N0 + i) = xi(p, i, path);
}

MatrixXd PathInput::kernel(const PathInput& other, const MatrixXd& u) const {
  MatrixXd weighted(other.blocks_.rows(), other.blocks_.cols());
  const Index rows = other.blocks_.size() / std::max<Index>(paths_, 1);
  Eigen::Map<MatrixXd>(weighted.data(), rows, paths_).noalias() =
      Eigen::Map<const MatrixXd>(other.blocks_.data(), rows, paths_) * u.transpose();
  return blocks_ * weighted.transpose();
}

MatrixXd PathInput::contract(const MatrixXd& m) const {
  const MatrixXd image = m * blocks_;
  const Index rows = blocks_.size() / std::max<Index>(paths_, 1);
  return Eigen::Map<const MatrixXd>(blocks_.data(), rows, paths_).transpose() *
         Eigen::Map<const MatrixXd>(image.data(), rows, paths_);
}

double ActionPoint::gradient_max() const {
  double largest = 0;
  for (const MatrixXd& g : gradient) largest = std::max(largest, g.cwiseAbs().maxCoeff());
  return largest;
}

ActionFunction::ActionFunction(const Array<double, 3>& xi, const Vector& y, const Prior& prior)
    : input_(xi),
      pairs_(pairs_of(input_)),
      y_(Eigen::Map<const VectorXd>(y.data(), y.size())),
      prior_(prior),
      scale_(static_cast<double>(*std::max_element(prior.widths.begin(), prior.widths.end()))) {}

std::optional<ActionPoint> ActionFunction::at(const Symmetric& u) const {
  ActionPoint point;
  point.u = u;
  std::vector<double> logdet;
  for (const MatrixXd& each : u) {
    const Eigen::LLT<MatrixXd> factor(each);
    if (factor.info() != Eigen::Success || !each.allFinite()) return std::nullopt;
    logdet.push_back(logdet_of(factor));
    point.inverse.push_back(factor.solve(MatrixXd::Identity(each.rows(), each.cols())));
    point.gradient.push_back(MatrixXd::Zero(each.rows(), each.cols()));
  }
  if (!add_energy(point)) return std::nullopt;
  add_entropy(point, logdet);
  point.energy /= scale_;
  point.entropy /= scale_;
  for (MatrixXd& g : point.gradient) g = (g + g.transpose()).eval() / (2 * scale_);
  return point;
}

MatrixXd ActionFunction::kernel(const MatrixXd& u) const {
  if (pairs_.size() == 0) return input_.kernel(input_, u);
  return unpacked(pairs_ * packed(u, 1), input_.examples(), 1);
}

MatrixXd ActionFunction::contract(const MatrixXd& m) const {
  if (pairs_.size() == 0) return input_.contract(m);
  return unpacked(pairs_.transpose() * packed(m, 2), input_.paths(), 0.5);
}

// logdet(K + T) + y^T (K + T)^-1 y
bool ActionFunction::add_energy(ActionPoint& point) const {
  MatrixXd k = kernel(point.u[0]);
  k.diagonal().array() += prior_.temperature;
  const Eigen::LLT<MatrixXd> factor(k);
  if (factor.info() != Eigen::Success) return false;
  point.precision = factor.solve(MatrixXd::Identity(k.rows(), k.cols()));
  point.alpha = factor.solve(y_);
  point.energy = logdet_of(factor) + y_.dot(point.alpha);
  point.gradient[0] += contract(point.precision - point.alpha * point.alpha.transpose());
  return std::isfinite(point.energy);
}

void ActionFunction::add_entropy(ActionPoint& point, const std::vector<double>& logdet) const {
  const Index L = prior_.layers();
  const auto width = [&](Index l) { return static_cast<double>(prior_.widths[at_index(l)]); };
  const auto heads = [&](Index l) { return static_cast<double>(prior_.heads[at_index(l)]); };
  const double Na = width(L), NL = width(L - 1), HL = heads(L - 1), sa = prior_.variances[at_index(L + 1)],
               sL = prior_.variances[at_index(L)], trace = point.u.back().trace();
  // U_a where the entropy is stationary in it, so that it adds nothing to the gradient.
  const double b = sa * (HL * NL / Na - 1), g = trace * NL * sa / (Na * sL), root = std::sqrt(b * b + 4 * g);
  point.ua = b > 0 ? 2 * g / (b + root) : (root - b) / 2;
  point.ua_slope = NL * sa / (Na * sL) / root;
  point.entropy = Na * (point.ua / sa - std::log(point.ua)) +
                  NL * (trace / (point.ua * sL) - logdet.back() + HL * std::log(point.ua));
  point.gradient.back().diagonal().array() += NL / (point.ua * sL);
  for (Index l = L - 1; l >= 0; --l) {
    const auto here = at_index(l);
    point.gradient[here] -= width(l) * point.inverse[here];
    if (l == L - 1) continue;
    const double s = prior_.variances[at_index(l + 1)];
    const MatrixXd& v = point.inverse[here + 1];
    const MatrixXd t = partial_trace(point.u[here], prior_.heads[here]);
    point.entropy += width(l) * (v.cwiseProduct(t).sum() / s - logdet[here] + heads(l) * logdet[here + 1]);
    add_to_blocks(point.gradient[here], v, prior_.heads[here], width(l) / s);
    point.gradient[here + 1] += width(l) * (heads(l) * v - v * t * v / s);
  }
}

Symmetric ActionFunction::hessian_times(const ActionPoint& point, const Symmetric& direction) const {
  const Index L = prior_.layers();
  Symmetric change, inverse_change;
  for (std::size_t l = 0; l < direction.size(); ++l)
    inverse_change.push_back(-point.inverse[l] * direction[l] * point.inverse[l]);

  const MatrixXd dk = kernel(direction[0]);
  const MatrixXd image = point.precision * dk;
  const VectorXd dalpha = -image * point.alpha;
  const MatrixXd mixed = dalpha * point.alpha.transpose();
  change.push_back(contract(-image * point.precision - mixed - mixed.transpose()));
  for (Index l = 1; l < L; ++l)
    change.push_back(MatrixXd::Zero(direction[at_index(l)].rows(), direction[at_index(l)].cols()));

  const double NL = static_cast<double>(prior_.widths[at_index(L - 1)]), sL = prior_.variances[at_index(L)];
  const double dua = point.ua_slope * direction.back().trace();
  change.back().diagonal().array() -= NL * dua / (point.ua * point.ua * sL);
  for (Index l = L - 1; l >= 0; --l) {
    const auto here = at_index(l);
    const auto N = static_cast<double>(prior_.widths[here]), H = static_cast<double>(prior_.heads[here]);
    change[here] -= N * inverse_change[here];
    if (l == L - 1) continue;
    const double s = prior_.variances[here + 1];
    const MatrixXd &v = point.inverse[here + 1], &dv = inverse_change[here + 1];
    const MatrixXd t = partial_trace(point.u[here], prior_.heads[here]),
                   dt = partial_trace(direction[here], prior_.heads[here]);
    add_to_blocks(change[here], dv, prior_.heads[here], N / s);
    const MatrixXd left = dv * t * v;
    change[here + 1] += N * (H * dv - (left + left.transpose() + v * dt * v) / s);
  }
  for (MatrixXd& each : change) each = (each + each.transpose()).eval() / (2 * scale_);
  return change;
}

}  // namespace saddle::analysis::attention_paths
