#include "saddle/primal/reference.hpp"

#include <cmath>
#include <limits>

#include "saddle/base/parallel.hpp"
#include "saddle/primal/dropout.hpp"
#include "saddle/primal/head.hpp"
#include "saddle/primal/weights.hpp"

namespace saddle::primal {

namespace {

std::span<const std::uint8_t> visible_row(const Head& head, Index i) {
  const Index K = head.visible.shape()[1];
  return {head.visible.data() + i * K, static_cast<std::size_t>(K)};
}

WeightRule rule_for(const Call& call, const Head& head) {
  return {call.attention, head.tokens.q.shape()[1], head.tokens.q.shape()[0], head.tokens.k.shape()[0]};
}

bool is_per_query(const Call& call, const Head& head) { return head.per_query < call.attention.transforms.size(); }

// Weights A [N,K] of a head, and log h [N].
Matrix weigh(const Call& call, const Head& head, const WeightRule& rule, Vector& log_h) {
  const Index N = head.tokens.q.shape()[0], K = head.tokens.k.shape()[0];
  Matrix weights({N, K});
  log_h = Vector({N});
  for (Index i = 0; i < N; ++i) {
    if (is_per_query(call, head)) {
      const Tokens own = per_query_tokens(call, head, i).tokens;
      log_h(i) = rule.row(row(own.q, 0), own.k, visible_row(head, i), row(weights, i));
    } else {
      log_h(i) = rule.row(row(head.tokens.q, i), head.tokens.k, visible_row(head, i), row(weights, i));
    }
  }
  return weights;
}

// The factor of weight (i,j) under dropout.
double dropout_at(const Call& call, const Head& head, Index i, Index j) {
  if (call.dropout.p == 0) return 1;
  return is_dropped(call.dropout, head.sample * call.dims().H + head.head, i, j) ? 0 : dropout_factor(call.dropout);
}

// A [N,K] as it is applied to the values.
Matrix with_dropout(const Call& call, const Head& head, Matrix weights) {
  if (call.dropout.p == 0) return weights;
  for (Index i = 0; i < weights.shape()[0]; ++i)
    for (Index j = 0; j < weights.shape()[1]; ++j) weights(i, j) *= dropout_at(call, head, i, j);
  return weights;
}

// A [n,K] times v [K,E].
Matrix expand(const Matrix& weights, const Matrix& v) {
  Matrix y({weights.shape()[0], v.shape()[1]});
  for (Index i = 0; i < y.shape()[0]; ++i)
    for (Index j = 0; j < v.shape()[0]; ++j)
      if (weights(i, j) != 0)
        for (Index e = 0; e < y.shape()[1]; ++e) y(i, e) += weights(i, j) * v(j, e);
  return y;
}

void write_row(const TensorView& tensor, Index offset, Index stride, std::span<const double> values, Index columns) {
  for (Index c = 0; c < columns; ++c)
    store(tensor, offset + c * stride, c < static_cast<Index>(values.size()) ? values[c] : 0);
}

void write_optional(const Head& head, const Matrix& weights, const Vector& log_h, const Outputs& out) {
  const auto [N, K] = weights.shape();
  if (out.lse)
    for (Index i = 0; i < N; ++i)
      store(out.lse, head.sample * out.lse.stride[0] + head.head * out.lse.stride[1] + i * out.lse.stride[2], log_h(i));
  if (out.weights) {
    const auto& s = out.weights.stride;
    for (Index i = 0; i < N; ++i)
      write_row(out.weights, head.sample * s[0] + head.head * s[1] + i * s[2], s[3], row(weights, i),
                out.weights.shape[3]);
  }
  if (out.column_sums) {
    std::vector<double> sums(K, 0.0);
    for (Index i = 0; i < N; ++i)
      for (Index j = 0; j < K; ++j) sums[j] += weights(i, j);
    const auto& s = out.column_sums.stride;
    write_row(out.column_sums, head.sample * s[0] + head.head * s[1], s[2], sums, out.column_sums.shape[2]);
  }
}

// dY = dy [N,E]: dV = A^T dY, dA = dY V^T, and dA through the weights to q and k.
HeadGradient head_backward(const Call& call, const Head& head, const Matrix& dy) {
  HeadGradient gradient = zero_gradient(head);
  const WeightRule rule = rule_for(call, head);
  Vector log_h;
  const Matrix weights = weigh(call, head, rule, log_h);
  const auto [N, K] = weights.shape();
  const Index E = dy.shape()[1];
  std::vector<double> dweights(K);
  for (Index i = 0; i < N; ++i) {
    for (Index j = 0; j < K; ++j) {
      const double factor = dropout_at(call, head, i, j), weight = factor * weights(i, j);
      double sum = 0;
      for (Index e = 0; e < E; ++e) {
        sum += head.visible(i, j) && factor != 0 ? dy(i, e) * head.v(j, e) : 0;
        if (weight != 0) gradient.v(j, e) += weight * dy(i, e);
      }
      dweights[j] = factor * sum;
    }
    if (is_per_query(call, head)) {
      const QueryTokens own = per_query_tokens(call, head, i);
      Tokens dtokens{Matrix(own.tokens.q.shape()), Matrix(own.tokens.k.shape())};
      rule.row_pullback(row(own.tokens.q, 0), own.tokens.k, visible_row(head, i), dweights, row(dtokens.q, 0),
                        dtokens.k);
      per_query_pullback(call, head, i, own, std::move(dtokens), gradient);
    } else {
      rule.row_pullback(row(head.tokens.q, i), head.tokens.k, visible_row(head, i), dweights, row(gradient.tokens.q, i),
                        gradient.tokens.k);
    }
  }
  pullback_head(call, head, gradient);
  return gradient;
}

}  // namespace

void reference_forward(const Call& call, const Outputs& outputs) {
  const Dims dims = call.dims();
  parallel_for(dims.B * dims.H, 1, [&](Index begin, Index end) {
    for (Index task = begin; task < end; ++task) {
      const Head head = prepare_head(call, task / dims.H, task % dims.H);
      Vector log_h;
      const Matrix weights = weigh(call, head, rule_for(call, head), log_h);
      write_head(call, head, expand(with_dropout(call, head, weights), head.v), outputs.y);
      write_optional(head, weights, log_h, outputs);
    }
  });
}

void reference_backward(const Call& call, const Gradients& gradients) {
  const Dims dims = call.dims();
  std::vector<HeadGradient> heads(dims.B * dims.H);
  parallel_for(dims.B * dims.H, 1, [&](Index begin, Index end) {
    for (Index task = begin; task < end; ++task) {
      const Head head = prepare_head(call, task / dims.H, task % dims.H);
      heads[task] = head_backward(call, head, read_dy(gradients, task / dims.H, task % dims.H));
    }
  });
  write_gradients(call, heads, gradients);
}

}  // namespace saddle::primal
