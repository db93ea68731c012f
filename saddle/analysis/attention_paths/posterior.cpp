#include "saddle/analysis/attention_paths/posterior.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "saddle/analysis/attention_paths/action_internal.hpp"
#include "saddle/analysis/attention_paths/pooling_internal.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis::attention_paths {

namespace {

using Weights = Eigen::VectorXd;  // v0, v of all layers, a, one behind the other

double root(Index width) { return std::sqrt(static_cast<double>(width)); }

// Minus the logarithm of the posterior. With e_pi [N_1] the product of readout and value weights along a path, the
// output is sum over paths of e_pi . v0 xi_pi / sqrt(N_1).
class Posterior {
 public:
  Posterior(const Array<double, 3>& xi, const Vector& y, const Prior& prior)
      : prior_(prior),
        N0_(xi.shape()[1]),
        input_(xi.data(), xi.shape()[0], xi.shape()[1] * xi.shape()[2]),
        y_(y.data(), y.size()) {
    places_ = {0, prior.widths[0] * N0_};
    for (std::size_t l = 0; l < prior.heads.size(); ++l)
      places_.push_back(places_.back() + prior.heads[l] * prior.widths[l] * prior.widths[l + 1]);
    places_.push_back(places_.back() + prior.widths.back());
  }

  Index size() const { return places_.back(); }

  Weights drawn(Stream& stream) const {
    Weights weights(size());
    for (std::size_t part = 0; part + 1 < places_.size(); ++part)
      for (Index i = places_[part]; i < places_[part + 1]; ++i)
        weights(i) = std::sqrt(prior_.variances[part]) * stream.normal();
    return weights;
  }

  // The gradient of what the labels ask for, and with `prior` of the rest too.
  double energy(const Weights& weights, bool prior, Weights* gradient) const {
    std::vector<Dense> stages{row(weights)};  // e behind each layer, from the readout on
    for (std::size_t l = prior_.heads.size(); l-- > 0;) stages.push_back(through(weights, l, stages.back()));
    const Dense& e = stages.back();
    const DenseMap v0(weights.data(), prior_.widths[0], N0_);
    const double scale = 1 / root(prior_.widths[0]);
    const Dense mixed = scale * v0.transpose() * e.transpose();  // [N0,Pi]
    const Eigen::VectorXd wrong = input_ * Eigen::Map<const Eigen::VectorXd>(mixed.data(), mixed.size()) - y_;
    double sum = 0.5 * wrong.squaredNorm() / prior_.temperature;
    if (gradient != nullptr) {
      const Eigen::VectorXd asked = input_.transpose() * wrong * (scale / prior_.temperature);
      const DenseMap s(asked.data(), N0_, e.rows());
      gradient->setZero(size());
      Eigen::Map<Dense>(gradient->data(), v0.rows(), v0.cols()) = (s * e).transpose();
      Dense g = (v0 * s).transpose();  // of e
      for (std::size_t l = 0; l < prior_.heads.size(); ++l)
        g = back(weights, l, stages[prior_.heads.size() - 1 - l], g, *gradient);
      gradient->tail(prior_.widths.back()) = g.row(0).transpose();
    }
    for (std::size_t part = 0; prior && part + 1 < places_.size(); ++part) {
      const Index from = places_[part], count = places_[part + 1] - from;
      sum += 0.5 * weights.segment(from, count).squaredNorm() / prior_.variances[part];
      if (gradient != nullptr) gradient->segment(from, count) += weights.segment(from, count) / prior_.variances[part];
    }
    return sum;
  }

  NetworkWeights network(const Weights& weights) const {
    NetworkWeights own{Matrix({prior_.widths[0], N0_}), {}, Vector({prior_.widths.back()})};
    std::copy_n(weights.data(), own.v0.size(), own.v0.data());
    for (std::size_t l = 0; l < prior_.heads.size(); ++l) {
      own.v.emplace_back(std::array<Index, 3>{prior_.heads[l], prior_.widths[l + 1], prior_.widths[l]});
      std::copy_n(weights.data() + places_[l + 1], own.v[l].size(), own.v[l].data());
    }
    std::copy_n(weights.data() + places_[prior_.heads.size() + 1], own.a.size(), own.a.data());
    return own;
  }

 private:
  Dense row(const Weights& weights) const { return weights.tail(prior_.widths.back()).transpose(); }
  DenseMap head(const Weights& weights, std::size_t l, Index h) const {
    const Index in = prior_.widths[l], out = prior_.widths[l + 1];
    return {weights.data() + places_[l + 1] + h * in * out, out, in};
  }
  // [paths,N_(l+1)] to [H paths,N_l], the head being the slow index.
  Dense through(const Weights& weights, std::size_t l, const Dense& e) const {
    const Index H = prior_.heads[l];
    Dense next(H * e.rows(), prior_.widths[l]);
    for (Index h = 0; h < H; ++h)
      next.middleRows(h * e.rows(), e.rows()) = e * head(weights, l, h) / root(prior_.widths[l + 1]);
    return next;
  }
  Dense back(const Weights& weights, std::size_t l, const Dense& e, const Dense& g, Weights& gradient) const {
    const Index in = prior_.widths[l], out = prior_.widths[l + 1];
    Dense before = Dense::Zero(e.rows(), out);
    for (Index h = 0; h < prior_.heads[l]; ++h) {
      const auto own = g.middleRows(h * e.rows(), e.rows());
      Eigen::Map<Dense>(gradient.data() + places_[l + 1] + h * in * out, out, in) = e.transpose() * own / root(out);
      before += own * head(weights, l, h).transpose() / root(out);
    }
    return before;
  }

  Prior prior_;
  Index N0_;
  DenseMap input_;  // [P,N0 Pi]
  Eigen::Map<const Eigen::VectorXd> y_;
  std::vector<Index> places_;  // where the parts of the weights begin, and the end
};

// Adam on the labels alone: the posterior is narrow where they decide, and far from a draw of the prior.
void descend(const Posterior& posterior, Weights& weights, Index steps) {
  Weights gradient, mean = Weights::Zero(weights.size()), square = mean;
  for (Index t = 1; t <= steps; ++t) {
    posterior.energy(weights, false, &gradient);
    mean = 0.9 * mean + 0.1 * gradient;
    square = 0.999 * square + 0.001 * gradient.cwiseAbs2();
    const auto n = static_cast<double>(t);
    const double rate = 0.02 * std::sqrt(1 - std::pow(0.999, n)) / (1 - std::pow(0.9, n));
    weights.array() -= rate * mean.array() / (square.array().sqrt() + 1e-8);
  }
}

// One trajectory of leapfrog steps; false: it was rejected and the weights stay.
bool move(const Posterior& posterior, Weights& weights, double size, Index steps, Stream& stream) {
  Weights momentum(weights.size()), gradient, other = weights;
  for (double& value : momentum) value = stream.normal();
  const double before = posterior.energy(other, true, &gradient) + 0.5 * momentum.squaredNorm();
  for (Index step = 0; step < steps; ++step) {
    momentum -= 0.5 * size * gradient;
    other += size * momentum;
    posterior.energy(other, true, &gradient);
    momentum -= 0.5 * size * gradient;
  }
  const double after = posterior.energy(other, true, nullptr) + 0.5 * momentum.squaredNorm();
  if (!(std::log(stream.uniform()) < before - after)) return false;
  weights = std::move(other);
  return true;
}

void require(bool holds, const char* message) {
  if (!holds) throw InvalidArgument(std::string("attention_paths: ") + message);
}

}  // namespace

std::vector<NetworkWeights> sample_networks(const Array<double, 3>& xi, const Vector& y, const Prior& prior,
                                            Stream& stream, const SampleOptions& options) {
  validate(prior, xi, y);
  require(prior.temperature > 0, "weights are drawn at a temperature above 0");
  require(prior.variances[0] == 1, "weights are drawn for an input projection of variance 1");
  require(options.networks > 0 && options.steps > 0 && options.size > 0, "networks, steps and their size are above 0");
  const Posterior posterior(xi, y, prior);
  Weights weights = posterior.drawn(stream);
  descend(posterior, weights, options.descent);
  double size = options.size;
  for (Index t = 0; t < options.trajectories; ++t)
    size *= move(posterior, weights, size, options.steps, stream) ? 1.1 : 0.7;
  std::vector<NetworkWeights> networks;
  for (Index t = 0; t < options.networks; ++t) {
    move(posterior, weights, size, options.steps, stream);
    networks.push_back(posterior.network(weights));
  }
  return networks;
}

NetworkWeights with_heads(NetworkWeights weights, const Kept& kept) {
  require(kept.size() == weights.v.size(), "every layer says which of its heads stay");
  for (std::size_t l = 0; l < kept.size(); ++l) {
    Array<double, 3>& v = weights.v[l];
    const auto H = static_cast<Index>(kept[l].size()), left = std::count(kept[l].begin(), kept[l].end(), true);
    require(H == v.shape()[0] && left > 0, "every layer keeps some of its heads");
    const Index size = v.size() / H;
    for (Index h = 0; h < H; ++h) {
      const double factor = kept[l][static_cast<std::size_t>(h)] ? root(H) / root(left) : 0;
      for (Index i = 0; i < size; ++i) v.data()[h * size + i] *= factor;
    }
  }
  return weights;
}

std::vector<double> head_norms(const NetworkWeights& weights) {
  std::vector<double> norms;
  for (const Array<double, 3>& v : weights.v) {
    const Index size = v.shape()[1] * v.shape()[2];
    for (Index h = 0; h < v.shape()[0]; ++h)
      norms.push_back(Eigen::Map<const Eigen::VectorXd>(v.data() + h * size, size).norm());
  }
  return norms;
}

std::vector<Kept> removals(const std::vector<double>& scores, const std::vector<Index>& heads) {
  std::vector<std::pair<std::size_t, std::size_t>> order;  // layer and head
  Kept kept;
  for (std::size_t l = 0; l < heads.size(); ++l) {
    kept.emplace_back(static_cast<std::size_t>(heads[l]), true);
    for (std::size_t h = 0; h < kept[l].size(); ++h) order.emplace_back(l, h);
  }
  require(order.size() == scores.size(), "every head has a score");
  std::vector<std::size_t> ascending(order.size());
  std::iota(ascending.begin(), ascending.end(), std::size_t{0});
  std::stable_sort(ascending.begin(), ascending.end(),
                   [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  std::vector<Kept> all{kept};
  for (const std::size_t next : ascending) {
    auto& layer = kept[order[next].first];
    if (std::count(layer.begin(), layer.end(), true) == 1) continue;
    layer[order[next].second] = false;
    all.push_back(kept);
  }
  return all;
}

}  // namespace saddle::analysis::attention_paths
