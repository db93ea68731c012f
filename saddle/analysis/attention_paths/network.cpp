#include "saddle/analysis/attention_paths/network.hpp"

#include <Eigen/Core>
#include <cmath>

#include "saddle/analysis/attention_paths/pooling_internal.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/shape.hpp"

namespace saddle::analysis::attention_paths {

namespace {

void require(bool holds, const std::string& message) {
  if (!holds) throw InvalidArgument("attention_paths: " + message);
}

DenseMap matrix(const Matrix& m) { return {m.data(), m.shape()[0], m.shape()[1]}; }
DenseMap head(const Array<double, 3>& v, Index h) {
  return {v.data() + h * v.shape()[1] * v.shape()[2], v.shape()[1], v.shape()[2]};
}
Eigen::Map<Dense> head(Array<double, 3>& v, Index h) {
  return {v.data() + h * v.shape()[1] * v.shape()[2], v.shape()[1], v.shape()[2]};
}
Eigen::Map<const Eigen::VectorXd> vector(const Vector& v) { return {v.data(), v.size()}; }

void require_chain(const NetworkWeights& weights) {
  require(!weights.v.empty() && !weights.v0.empty(), "the network has no layers");
  Index width = weights.v0.shape()[0];
  for (const Array<double, 3>& v : weights.v) {
    require(!v.empty() && v.shape()[2] == width, "value weights " +
                                                     to_string(Shape(v.shape().begin(), v.shape().end())) +
                                                     " follow a layer of width " + std::to_string(width));
    width = v.shape()[1];
  }
  require(weights.a.shape()[0] == width,
          "the readout has " + std::to_string(weights.a.shape()[0]) + " weights for width " + std::to_string(width));
}

void require_input(const NetworkWeights& weights, const Array<double, 3>& x, const std::vector<Attention>& attention) {
  require_chain(weights);
  require(weights.v0.shape()[1] == x.shape()[1], "the input has " + std::to_string(x.shape()[1]) +
                                                     " features, the projection takes " +
                                                     std::to_string(weights.v0.shape()[1]));
  require(attention.size() == weights.v.size(), std::to_string(attention.size()) + " layers of attention for " +
                                                    std::to_string(weights.v.size()) + " layers of weights");
  for (std::size_t l = 0; l < attention.size(); ++l) {
    const auto& s = attention[l].shape();
    require(s[0] == x.shape()[0] && s[1] == weights.v[l].shape()[0] && s[2] == x.shape()[2] && s[3] == x.shape()[2],
            "attention of layer " + std::to_string(l + 1) + " is " + to_string(Shape(s.begin(), s.end())) +
                ", which does not fit input and heads");
  }
}

// One example on its way through the network: z_0 [N_1,T], .., z_(L-1) [N_L,T], z_L [N_a,1].
class Passage {
 public:
  Passage(const NetworkWeights& weights, const Array<double, 3>& x, const std::vector<Attention>& attention,
          Readout readout, Index p)
      : weights_(weights), attention_(attention), readout_(readout), p_(p), x_(head(x, p)) {
    z_.push_back(matrix(weights.v0) * x_ / std::sqrt(static_cast<double>(x_.rows())));
    for (std::size_t l = 0; l < weights.v.size(); ++l) {
      const Array<double, 3>& v = weights.v[l];
      Dense next;
      for (Index h = 0; h < v.shape()[0]; ++h) {
        const Dense term = head(v, h) * (z_[l] * mixing(l, h)) * scale(l);
        if (h == 0)
          next = term;
        else
          next += term;
      }
      z_.push_back(std::move(next));
    }
  }

  double output() const { return vector(weights_.a).dot(z_.back().col(0)) / readout_scale(); }

  void add_gradient(double cotangent, NetworkWeights& into) const {
    Eigen::Map<Eigen::VectorXd>(into.a.data(), into.a.size()) += cotangent / readout_scale() * z_.back().col(0);
    Dense g = cotangent / readout_scale() * vector(weights_.a);
    for (std::size_t l = weights_.v.size(); l-- > 0;) {
      const Array<double, 3>& v = weights_.v[l];
      Dense before = Dense::Zero(z_[l].rows(), z_[l].cols());
      for (Index h = 0; h < v.shape()[0]; ++h) {
        const Dense mix = mixing(l, h);
        head(into.v[l], h) += scale(l) * g * (z_[l] * mix).transpose();
        before += scale(l) * head(v, h).transpose() * g * mix.transpose();
      }
      g = std::move(before);
    }
    Eigen::Map<Dense>(into.v0.data(), into.v0.shape()[0], into.v0.shape()[1]) +=
        g * x_.transpose() / std::sqrt(static_cast<double>(x_.rows()));
  }

 private:
  // From keys to queries [T,T], in the last layer pooled over queries [T,1].
  Dense mixing(std::size_t l, Index h) const {
    const Attention& layer = attention_[l];
    const Index T = layer.shape()[2];
    const DenseMap weights(layer.data() + (p_ * layer.shape()[1] + h) * T * T, T, T);
    if (l + 1 < attention_.size()) return weights;
    return pooled(weights, readout_);
  }
  double scale(std::size_t l) const {
    return 1 / std::sqrt(static_cast<double>(weights_.v[l].shape()[0] * weights_.v[l].shape()[2]));
  }
  double readout_scale() const { return std::sqrt(static_cast<double>(weights_.a.size())); }

  const NetworkWeights& weights_;
  const std::vector<Attention>& attention_;
  Readout readout_;
  Index p_;
  DenseMap x_;
  std::vector<Dense> z_;
};

// e_pi [N_1] of every path, one row each: a V_L .. V_1 with a factor 1 / sqrt(width) at every product.
Dense effective_weights(const NetworkWeights& weights) {
  Dense e = vector(weights.a).transpose();
  for (std::size_t l = weights.v.size(); l-- > 0;) {
    const Array<double, 3>& v = weights.v[l];
    const Index H = v.shape()[0], rest = e.rows();
    Dense next(H * rest, v.shape()[2]);
    for (Index h = 0; h < H; ++h)
      next.middleRows(h * rest, rest) = e * head(v, h) / std::sqrt(static_cast<double>(v.shape()[1]));
    e = std::move(next);
  }
  return e;
}

}  // namespace

Vector network_output(const NetworkWeights& weights, const Array<double, 3>& x, const std::vector<Attention>& attention,
                      Readout readout) {
  require_input(weights, x, attention);
  Vector output({x.shape()[0]});
  for (Index p = 0; p < x.shape()[0]; ++p) output(p) = Passage(weights, x, attention, readout, p).output();
  return output;
}

Vector network_output(const NetworkWeights& weights, const Array<double, 3>& xi) {
  require_chain(weights);
  const auto [P, N0, Pi] = xi.shape();
  const Dense e = effective_weights(weights);
  require(weights.v0.shape()[1] == N0 && e.rows() == Pi,
          "the attended input has " + std::to_string(N0) + " features and " + std::to_string(Pi) +
              " paths, the network " + std::to_string(weights.v0.shape()[1]) + " and " + std::to_string(e.rows()));
  const Dense mixed = matrix(weights.v0).transpose() * e.transpose() / std::sqrt(static_cast<double>(e.cols()));
  Vector output({P});
  Eigen::Map<Eigen::VectorXd>(output.data(), P) =
      DenseMap(xi.data(), P, N0 * Pi) * Eigen::Map<const Eigen::VectorXd>(mixed.data(), mixed.size());
  return output;
}

NetworkWeights network_gradient(const NetworkWeights& weights, const Array<double, 3>& x,
                                const std::vector<Attention>& attention, Readout readout, const Vector& cotangent) {
  require_input(weights, x, attention);
  require(cotangent.shape()[0] == x.shape()[0],
          std::to_string(cotangent.shape()[0]) + " cotangents for " + std::to_string(x.shape()[0]) + " examples");
  NetworkWeights gradient{Matrix(weights.v0.shape()), {}, Vector(weights.a.shape())};
  for (const Array<double, 3>& v : weights.v) gradient.v.emplace_back(v.shape());
  for (Index p = 0; p < x.shape()[0]; ++p)
    Passage(weights, x, attention, readout, p).add_gradient(cotangent(p), gradient);
  return gradient;
}

Matrix sampled_order_parameter(const std::vector<NetworkWeights>& samples) {
  require(!samples.empty(), "there are no samples of weights");
  Dense sum;
  for (const NetworkWeights& weights : samples) {
    require_chain(weights);
    const Dense e = effective_weights(weights);
    const Dense product = e * e.transpose() / static_cast<double>(e.cols());
    if (sum.size() == 0) sum = Dense::Zero(product.rows(), product.cols());
    require(sum.rows() == product.rows(), "samples of weights have different numbers of paths");
    sum += product;
  }
  Matrix mean({sum.rows(), sum.cols()});
  Eigen::Map<Dense>(mean.data(), sum.rows(), sum.cols()) = sum / static_cast<double>(samples.size());
  return mean;
}

}  // namespace saddle::analysis::attention_paths
