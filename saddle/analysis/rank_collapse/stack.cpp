// The recursion of the theory, forward and backward.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

#include "saddle/analysis/rank_collapse/rank_collapse.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/shape.hpp"
#include "saddle/base/text.hpp"

namespace saddle::analysis::rank_collapse {

namespace {

using Dense = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Weights = Eigen::Map<const Dense>;

template <int Rank>
std::string shape_text(const Array<double, Rank>& array) {
  return to_string(Shape(array.shape().begin(), array.shape().end()));
}

// Weights [a,b] of layer t and head h in an array [Lw,H,a,b].
Index offset_of(const Array<double, 4>& w, Index t, Index h) {
  const auto& s = w.shape();
  return ((t % s[0]) * s[1] + h) * s[2] * s[3];
}
Weights of(const Array<double, 4>& w, Index t, Index h) {
  return {w.data() + offset_of(w, t, h), w.shape()[2], w.shape()[3]};
}
Eigen::Map<Dense> of(Array<double, 4>& w, Index t, Index h) {
  return {w.data() + offset_of(w, t, h), w.shape()[2], w.shape()[3]};
}

Dense dense(const Matrix& x) { return Weights(x.data(), x.shape()[0], x.shape()[1]); }

Matrix matrix(const Dense& x) {
  Matrix copy({x.rows(), x.cols()});
  std::copy(x.data(), x.data() + x.size(), copy.data());
  return copy;
}

void require(bool holds, const std::string& message) {
  if (!holds) throw InvalidArgument("rank_collapse: " + message);
}

void validate(const Stack& stack, const Matrix& x, const Mask& mask) {
  const Index N = x.shape()[0], d = x.shape()[1];
  require(N > 0 && d > 0, "there are no tokens in a matrix " + shape_text(x));
  require(mask.shape()[0] == N && mask.shape()[1] == N, "the mask is " + std::to_string(mask.shape()[0]) + " by " +
                                                            std::to_string(mask.shape()[1]) + " for " +
                                                            std::to_string(N) + " tokens");
  require(stack.layers >= 0, "the number of layers is " + std::to_string(stack.layers));
  const auto &q = stack.w_q.shape(), &k = stack.w_k.shape(), &v = stack.w_v.shape();
  require(!stack.w_q.empty() && q == k && q[2] == d, "w_q and w_k must be [layers,heads," + std::to_string(d) +
                                                         ",dk], found " + shape_text(stack.w_q) + " and " +
                                                         shape_text(stack.w_k));
  require(v[0] == q[0] && v[1] == q[1] && v[2] == d && v[3] == d,
          "w_v must be [" + std::to_string(q[0]) + "," + std::to_string(q[1]) + "," + std::to_string(d) + "," +
              std::to_string(d) + "] as w_q says, found " + shape_text(stack.w_v));
  require(stack.temperature >= 0 && std::isfinite(stack.temperature),
          "the temperature must be above 0, found " + format_number(stack.temperature));
  require(stack.layernorm_eps >= 0, "layernorm_eps must not be negative, found " + format_number(stack.layernorm_eps));
}

double temperature_of(const Stack& stack) {
  return stack.temperature > 0 ? stack.temperature : std::sqrt(static_cast<double>(stack.w_q.shape()[3]));
}

// Softmax over the allowed entries of every row; a row without any is 0.
Dense masked_softmax(Dense scores, const Mask& mask) {
  for (Index i = 0; i < scores.rows(); ++i) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (Index j = 0; j < scores.cols(); ++j)
      if (mask(i, j) != 0) largest = std::max(largest, scores(i, j));
    for (Index j = 0; j < scores.cols(); ++j) {
      scores(i, j) = mask(i, j) != 0 ? std::exp(scores(i, j) - largest) : 0;
      sum += scores(i, j);
    }
    if (sum > 0) scores.row(i) /= sum;
  }
  return scores;
}

Dense attention_of(const Stack& stack, Index t, Index h, const Dense& x, const Mask& mask) {
  const Dense q = x * of(stack.w_q, t, h), k = x * of(stack.w_k, t, h);
  return masked_softmax(q * k.transpose() / temperature_of(stack), mask);
}

// What a row is divided by; a row of length 0 stays as it is.
double unit_length(const Eigen::Ref<const Eigen::RowVectorXd>& row) {
  const double length = row.norm();
  return length > 0 ? length : 1;
}

Dense normalised(const Stack& stack, Dense z) {
  for (Index i = 0; i < z.rows(); ++i) {
    if (stack.norm == Norm::unit) z.row(i) /= unit_length(z.row(i));
    if (stack.norm == Norm::layernorm) {
      z.row(i).array() -= z.row(i).mean();
      z.row(i) /= std::sqrt(z.row(i).squaredNorm() / static_cast<double>(z.cols()) + stack.layernorm_eps);
    }
  }
  return z;
}

// From the gradient of normalised(z) to that of z.
Dense norm_pullback(const Stack& stack, const Dense& z, Dense g) {
  if (stack.norm == Norm::none) return g;
  const auto d = static_cast<double>(z.cols());
  const Dense y = normalised(stack, z);
  for (Index i = 0; i < z.rows(); ++i) {
    const double along = g.row(i).dot(y.row(i));
    if (stack.norm == Norm::unit) {
      g.row(i) = (g.row(i) - along * y.row(i)).eval() / unit_length(z.row(i));
    } else {
      const double mean = z.row(i).mean(), variance = (z.row(i).array() - mean).square().mean();
      g.row(i) = ((g.row(i) - along / d * y.row(i)).array() - g.row(i).mean()).eval() /
                 std::sqrt(variance + stack.layernorm_eps);
    }
  }
  return g;
}

struct Pass {
  Dense before_norm, after;
  double attention_min = std::numeric_limits<double>::infinity();
};

Pass forward(const Stack& stack, Index t, const Dense& x, const Mask& mask) {
  Pass pass;
  pass.before_norm = stack.residual ? x : Dense::Zero(x.rows(), x.cols());
  for (Index h = 0; h < stack.w_q.shape()[1]; ++h) {
    const Dense a = attention_of(stack, t, h, x, mask);
    pass.before_norm += a * (x * of(stack.w_v, t, h));
    for (Index i = 0; i < a.rows(); ++i)
      for (Index j = 0; j < a.cols(); ++j)
        if (mask(i, j) != 0) pass.attention_min = std::min(pass.attention_min, a(i, j));
  }
  if (std::isinf(pass.attention_min)) pass.attention_min = 0;  // no edge at all
  pass.after = normalised(stack, pass.before_norm);
  return pass;
}

// Takes the gradient of X_{t+1} back to X_t and adds to those of the weights.
Dense backward(const Stack& stack, Index t, const Dense& x, const Mask& mask, const Dense& after_gradient,
               Gradients& into) {
  const Dense dz = norm_pullback(stack, forward(stack, t, x, mask).before_norm, after_gradient);
  Dense dx = stack.residual ? dz : Dense::Zero(x.rows(), x.cols());
  for (Index h = 0; h < stack.w_q.shape()[1]; ++h) {
    const Weights wq = of(stack.w_q, t, h), wk = of(stack.w_k, t, h), wv = of(stack.w_v, t, h);
    const Dense q = x * wq, k = x * wk, a = attention_of(stack, t, h, x, mask);
    const Dense dv = a.transpose() * dz, da = dz * (x * wv).transpose();
    const Eigen::VectorXd mean = a.cwiseProduct(da).rowwise().sum();
    const Dense ds = a.cwiseProduct(da.colwise() - mean) / temperature_of(stack);
    const Dense dq = ds * k, dk = ds.transpose() * q;
    of(into.w_q, t, h) += x.transpose() * dq;
    of(into.w_k, t, h) += x.transpose() * dk;
    of(into.w_v, t, h) += x.transpose() * dv;
    dx += dq * wq.transpose() + dk * wk.transpose() + dv * wv.transpose();
  }
  return dx;
}

// d mu / dx, 0 where mu is.
Dense mu_gradient(const Dense& x) {
  const Dense centred = x.rowwise() - x.colwise().mean();
  const double mu = centred.norm();
  return mu > 0 ? Dense(centred / mu) : Dense::Zero(x.rows(), x.cols());
}

std::vector<Dense> all_tokens(const Stack& stack, const Matrix& x, const Mask& mask, std::vector<double>* smallest) {
  std::vector<Dense> tokens{dense(x)};
  for (Index t = 0; t < stack.layers; ++t) {
    Pass pass = forward(stack, t, tokens.back(), mask);
    if (smallest != nullptr) smallest->push_back(pass.attention_min);
    tokens.push_back(std::move(pass.after));
  }
  return tokens;
}

bool has_identity_values(const Stack& stack) {
  const auto& s = stack.w_v.shape();
  for (Index l = 0; l < s[0]; ++l)
    if (!of(stack.w_v, l, 0).isIdentity(0)) return false;
  return true;
}

}  // namespace

Trace trace(const Stack& stack, const Matrix& x, const Mask& mask, double rank_rtol) {
  validate(stack, x, mask);
  std::vector<double> smallest;
  std::vector<Matrix> tokens;
  for (const Dense& each : all_tokens(stack, x, mask, &smallest)) tokens.push_back(matrix(each));
  Trace result = observe(std::move(tokens), mask, std::move(smallest), rank_rtol);
  if (stack.norm != Norm::none || stack.residual || stack.w_q.shape()[1] != 1) {
    result.guaranteed = 1;
    result.promised = false;
  } else if (stack.layers > 0 && result.graph.quasi_strongly_connected && result.graph.self_loops &&
             has_identity_values(stack)) {
    const double eps = *std::min_element(result.attention_min.begin(), result.attention_min.end());
    result.bound = oscillation_bound(result.graph, eps, result.measures.front().oscillation, stack.layers);
  }
  return result;
}

Gradients gradients(const Stack& stack, const Matrix& x, const Mask& mask, const std::vector<double>& cot_mu,
                    const Matrix& cot_x) {
  validate(stack, x, mask);
  require(static_cast<Index>(cot_mu.size()) == stack.layers + 1,
          "cot_mu has " + std::to_string(cot_mu.size()) + " values for " + std::to_string(stack.layers) + " layers");
  require(cot_x.shape() == x.shape(), "cot_x is " + shape_text(cot_x) + " for tokens " + shape_text(x));
  const std::vector<Dense> tokens = all_tokens(stack, x, mask, nullptr);
  Gradients result{Matrix(x.shape()), Array<double, 4>(stack.w_q.shape()), Array<double, 4>(stack.w_k.shape()),
                   Array<double, 4>(stack.w_v.shape())};
  Dense gradient = dense(cot_x) + cot_mu.back() * mu_gradient(tokens.back());
  for (Index t = stack.layers - 1; t >= 0; --t) {
    const auto at = static_cast<std::size_t>(t);
    gradient = backward(stack, t, tokens[at], mask, gradient, result) + cot_mu[at] * mu_gradient(tokens[at]);
  }
  result.x = matrix(gradient);
  return result;
}

}  // namespace saddle::analysis::rank_collapse
