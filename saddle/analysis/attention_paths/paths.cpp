// Attention from the raw input, and what each path makes of that input.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "saddle/analysis/attention_paths/action_internal.hpp"
#include "saddle/analysis/attention_paths/pooling_internal.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/base/shape.hpp"
#include "saddle/base/text.hpp"

namespace saddle::analysis::attention_paths {

namespace {

template <int Rank>
std::string shape_text(const Array<double, Rank>& array) {
  return to_string(Shape(array.shape().begin(), array.shape().end()));
}

void require(bool holds, const std::string& message) {
  if (!holds) throw InvalidArgument("attention_paths: " + message);
}

// Matrix i of an array of matrices.
DenseMap slice(const Array<double, 3>& array, Index i) {
  return {array.data() + i * array.shape()[1] * array.shape()[2], array.shape()[1], array.shape()[2]};
}

// Over keys, for every query: columns.
void normalise(Dense& scores, Nonlinearity nonlinearity) {
  for (Index t = 0; t < scores.cols(); ++t) {
    Index largest = 0;
    const double peak = scores.col(t).maxCoeff(&largest);
    if (nonlinearity == Nonlinearity::hardmax) {
      scores.col(t).setZero();
      scores(largest, t) = 1;
    } else {
      scores.col(t) = (scores.col(t).array() - peak).exp();
      scores.col(t) /= scores.col(t).sum();
    }
  }
}

// scores(p, h) [T,T] of all examples and heads, normalised.
template <class Scores>
Attention attention_of(const Array<double, 3>& x, Index H, Nonlinearity nonlinearity, Scores scores) {
  const Index P = x.shape()[0], T = x.shape()[2];
  require(x.size() > 0 && H > 0, "there is nothing to attend to in an input " + shape_text(x));
  Attention attention({P, H, T, T});
  parallel_for(P * H, 1, [&](Index i) {
    Dense weights = scores(i / H, i % H);
    normalise(weights, nonlinearity);
    std::copy_n(weights.data(), T * T, attention.data() + i * T * T);
  });
  return attention;
}

}  // namespace

Readout readout_from(const std::string& name) {
  if (name == "average_pooling") return Readout::average_pooling;
  if (name == "first_token") return Readout::first_token;
  if (name == "last_token") return Readout::last_token;
  throw InvalidArgument("unknown readout '" + name + "', expected average_pooling, first_token or last_token");
}

Nonlinearity nonlinearity_from(const std::string& name) {
  if (name == "softmax") return Nonlinearity::softmax;
  if (name == "hardmax") return Nonlinearity::hardmax;
  throw InvalidArgument("unknown nonlinearity '" + name + "', expected softmax or hardmax");
}

Attention attention_from_w(const Array<double, 3>& x, const Array<double, 3>& w, Nonlinearity nonlinearity) {
  const Index N0 = x.shape()[1];
  require(w.shape()[1] == N0 && w.shape()[2] == N0, "w must be [heads," + std::to_string(N0) + "," +
                                                        std::to_string(N0) + "] for an input " + shape_text(x) +
                                                        ", found " + shape_text(w));
  return attention_of(x, w.shape()[0], nonlinearity,
                      [&](Index p, Index h) -> Dense { return slice(x, p).transpose() * slice(w, h) * slice(x, p); });
}

Attention attention_from_qk(const Array<double, 3>& x, const Array<double, 3>& q, const Array<double, 3>& k,
                            Nonlinearity nonlinearity) {
  require(q.shape() == k.shape() && q.shape()[2] == x.shape()[1] && q.shape()[1] > 0,
          "q and k must be [heads,G," + std::to_string(x.shape()[1]) + "] for an input " + shape_text(x) + ", found " +
              shape_text(q) + " and " + shape_text(k));
  const double scale = 1 / std::sqrt(static_cast<double>(q.shape()[1]));
  return attention_of(x, q.shape()[0], nonlinearity, [&](Index p, Index h) -> Dense {
    const Dense keys = slice(k, h) * slice(x, p), queries = slice(q, h) * slice(x, p);
    return scale * keys.transpose() * queries;
  });
}

Attention attention_from_maps(const Array<double, 4>& maps) {
  const auto [P, H, T, keys] = maps.shape();
  require(T == keys, "paths need attention between the same tokens, found maps " + shape_text(maps));
  Attention attention(maps.shape());
  for (Index i = 0; i < P * H; ++i)
    Eigen::Map<Dense>(attention.data() + i * T * T, T, T) = DenseMap(maps.data() + i * T * T, T, T).transpose();
  return attention;
}

Array<double, 3> attended_input(const Array<double, 3>& x, const std::vector<Attention>& attention, Readout readout,
                                double input_variance) {
  const auto [P, N0, T] = x.shape();
  require(!attention.empty(), "there are no layers");
  require(input_variance > 0,
          "the variance of the input projection must be above 0, found " + format_number(input_variance));
  Index Pi = 1;
  for (const Attention& layer : attention) {
    const auto& s = layer.shape();
    require(s[0] == P && s[1] > 0 && s[2] == T && s[3] == T,
            "attention of a layer is " + shape_text(layer) + " for an input " + shape_text(x));
    require(Pi <= 4096 / s[1], "the heads make more than 4096 paths");
    Pi *= s[1];
  }
  Array<double, 3> xi({P, N0, Pi});
  const double scale = std::sqrt(input_variance / static_cast<double>(N0 * Pi));
  parallel_for(P, 1, [&](Index p) {
    const auto weights = [&](const Attention& layer, Index h) {
      return DenseMap(layer.data() + (p * layer.shape()[1] + h) * T * T, T, T);
    };
    // om [paths of the layers so far, T], from the last layer to the first; a new head is the slow index.
    const Attention& last = attention.back();
    Dense om(last.shape()[1], T);
    for (Index h = 0; h < om.rows(); ++h) om.row(h) = pooled(weights(last, h), readout);
    for (std::size_t l = attention.size() - 1; l-- > 0;) {
      const Index H = attention[l].shape()[1], rest = om.rows();
      Dense next(H * rest, T);
      for (Index h = 0; h < H; ++h) next.middleRows(h * rest, rest) = om * weights(attention[l], h).transpose();
      om = std::move(next);
    }
    Eigen::Map<Dense>(xi.data() + p * N0 * Pi, N0, Pi) = scale * slice(x, p) * om.transpose();
  });
  return xi;
}

Array<double, 4> path_kernels(const Array<double, 3>& xi, Index count) {
  const auto [P, N0, Pi] = xi.shape();
  if (count == 0) count = Pi;
  require(count > 0 && count <= Pi,
          "kernels of " + std::to_string(count) + " paths were asked for, there are " + std::to_string(Pi));
  const PathInput input(xi);
  Array<double, 4> kernels({count, count, P, P});
  for (Index a = 0; a < count; ++a)
    for (Index b = 0; b < count; ++b)
      Eigen::Map<Dense>(kernels.data() + (a * count + b) * P * P, P, P) =
          static_cast<double>(Pi) * input.blocks().middleCols(a * N0, N0) *
          input.blocks().middleCols(b * N0, N0).transpose();
  return kernels;
}

Matrix kernel(const Array<double, 3>& xi, const Array<double, 3>& other, const Matrix& u) {
  const Index Pi = xi.shape()[2];
  require(other.shape()[1] == xi.shape()[1] && other.shape()[2] == Pi,
          "attended inputs " + shape_text(xi) + " and " + shape_text(other) + " do not belong together");
  require(u.shape()[0] == Pi && u.shape()[1] == Pi,
          "the weights of " + std::to_string(Pi) + " paths are " + shape_text(u));
  Matrix result({xi.shape()[0], other.shape()[0]});
  Eigen::Map<Dense>(result.data(), result.shape()[0], result.shape()[1]) =
      PathInput(xi).kernel(PathInput(other), DenseMap(u.data(), Pi, Pi));
  return result;
}

}  // namespace saddle::analysis::attention_paths
