#include "saddle/primal/primal_form.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/primal/head.hpp"

namespace saddle::primal {

namespace {

using Features = std::vector<double>;

PrimalState state_for(const Call& call, const Head& head) {
  return {call.attention, head.tokens.q.shape()[1], head.v.shape()[1], head.tokens.q.shape()[0],
          head.tokens.k.shape()[0]};
}

// keys [i]: those query i is the first to see. Key sets only grow with i here, so running sums serve all queries.
std::vector<std::vector<Index>> arrivals(const Head& head) {
  const auto [N, K] = head.visible.shape();
  std::vector<std::vector<Index>> keys(N);
  for (Index j = 0; j < K; ++j)
    for (Index i = 0; i < N; ++i)
      if (head.visible(i, j)) {
        keys[i].push_back(j);
        break;
      }
  return keys;
}

// y_i = W Phi(q_i)/h_i. With g_i = dy_i/h_i and c_i = [row sum] dy_i.y_i/h_i:
// dPhi(q_i) = W^T g_i - c_i z, dW += g_i Phi(q_i)^T, dz -= c_i Phi(q_i), and backwards in time
// dv_j = dW Phi(k_j), dPhi(k_j) = dW^T v_j + dz with the sums over the queries that see key j.
HeadGradient head_backward(const Call& call, const Head& head, const Matrix& dy) {
  HeadGradient gradient = zero_gradient(head);
  PrimalState state = state_for(call, head);
  const FeatureMap& map = state.features();
  const Index N = dy.shape()[0], E = dy.shape()[1], F = map.size();
  const auto arriving = arrivals(head);
  Matrix phi_q({N, F}), g({N, E});
  Vector c({N});
  std::vector<double> y(E), dphi(F);
  for (Index i = 0; i < N; ++i) {
    for (Index j : arriving[i]) state.append(row(head.tokens.k, j).data(), row(head.v, j).data());
    if (state.empty()) continue;
    map.map(row(head.tokens.q, i).data(), row(phi_q, i).data());
    const double h = state.read(row(head.tokens.q, i).data(), y.data());
    if (h == 0) continue;
    for (Index e = 0; e < E; ++e) {
      g(i, e) = dy(i, e) / h;
      if (state.row_sum()) c(i) += g(i, e) * y[e];
    }
    for (Index f = 0; f < F; ++f) {
      double sum = -c(i) * state.z()(f);
      for (Index e = 0; e < E; ++e) sum += g(i, e) * state.w()(e, f);
      dphi[f] = sum;
    }
    map.pullback(row(head.tokens.q, i).data(), dphi.data(), row(gradient.tokens.q, i).data());
  }
  Matrix dw({E, F});
  Vector dz({F});
  Features phi(F);
  for (Index i = N; i-- > 0;) {
    for (Index f = 0; f < F; ++f) {
      dz(f) -= c(i) * phi_q(i, f);
      for (Index e = 0; e < E; ++e) dw(e, f) += g(i, e) * phi_q(i, f);
    }
    for (Index j : arriving[i]) {
      map.map(row(head.tokens.k, j).data(), phi.data());
      for (Index f = 0; f < F; ++f) {
        double sum = dz(f);
        for (Index e = 0; e < E; ++e) {
          sum += dw(e, f) * head.v(j, e);
          gradient.v(j, e) += dw(e, f) * phi[f];
        }
        dphi[f] = sum;
      }
      map.pullback(row(head.tokens.k, j).data(), dphi.data(), row(gradient.tokens.k, j).data());
    }
  }
  pullback_head(call, head, gradient);
  return gradient;
}

}  // namespace

PrimalState::PrimalState(const Attention& attention, Index D, Index E, Index N, Index K)
    : features_(attention.kernel, D),
      w_({E, features_.size()}),
      z_({features_.size()}),
      h_(normaliser_rule(attention.normaliser, attention.kernel, N, K)) {}

void PrimalState::append(const double* k, const double* v) {
  const Index E = w_.shape()[0], F = w_.shape()[1];
  Features phi(F);
  features_.map(k, phi.data());
  for (Index f = 0; f < F; ++f) {
    z_(f) += phi[f];
    for (Index e = 0; e < E; ++e) w_(e, f) += v[e] * phi[f];
  }
  ++count_;
}

double PrimalState::normaliser(const double* phi) const {
  if (!h_.row_sum) return h_.fixed;
  double h = h_.den_eps;
  for (Index f = 0; f < z_.size(); ++f) h += phi[f] * z_(f);
  return h;
}

double PrimalState::read(const double* q, double* y) const {
  const Index E = w_.shape()[0], F = w_.shape()[1];
  std::fill(y, y + E, 0.0);
  if (empty()) return 0;
  Features phi(F);
  features_.map(q, phi.data());
  const double h = normaliser(phi.data());
  if (h == 0) return 0;
  for (Index e = 0; e < E; ++e) {
    double sum = 0;
    for (Index f = 0; f < F; ++f) sum += w_(e, f) * phi[f];
    y[e] = sum / h;
  }
  return h;
}

std::vector<std::string> primal_form_refusals(const Attention& attention, bool mask) {
  std::vector<std::string> refusals;
  if (!feature_count(attention.kernel, 1))
    refusals.push_back("the feature map of '" + std::string(name_of(attention.kernel)) +
                       "' is infinite: the primal form needs an explicit Phi");
  for (const KeySet& part : attention.keys)
    std::visit(
        [&]<class P>(const P&) {
          if constexpr (!std::is_same_v<P, Causal> && !std::is_same_v<P, Padding> && !std::is_same_v<P, Explicit>)
            refusals.push_back("key set '" + std::string(P::name) +
                               "' differs between queries: the primal form shares one W, or running sums if causal");
        },
        part);
  if (mask) refusals.push_back("a mask of queries by keys gives every query its own W");
  if (first_per_query_transform(attention) < attention.transforms.size())
    refusals.push_back("bn with per-query statistics gives every query its own transformed keys");
  return refusals;
}

void primal_forward(const Call& call, const Outputs& outputs) {
  const Dims dims = call.dims();
  parallel_for(dims.B * dims.H, 1, [&](Index begin, Index end) {
    for (Index task = begin; task < end; ++task) {
      const Head head = prepare_head(call, task / dims.H, task % dims.H);
      PrimalState state = state_for(call, head);
      const auto arriving = arrivals(head);
      Matrix y({dims.N, dims.E});
      for (Index i = 0; i < dims.N; ++i) {
        for (Index j : arriving[i]) state.append(row(head.tokens.k, j).data(), row(head.v, j).data());
        const double h = state.read(row(head.tokens.q, i).data(), row(y, i).data());
        if (outputs.lse)
          store(outputs.lse,
                head.sample * outputs.lse.stride[0] + head.head * outputs.lse.stride[1] + i * outputs.lse.stride[2],
                state.empty() ? -std::numeric_limits<double>::infinity() : std::log(h));
      }
      write_head(call, head, y, outputs.y);
    }
  });
}

void primal_backward(const Call& call, const Gradients& gradients) {
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

PrimalWeights primal_weights(const Call& call) {
  const Dims dims = call.dims();
  const auto F = feature_count(call.attention.kernel, dims.D);
  if (!F)
    throw NotSupported("W and z exist only for a finite feature map", primal_form_refusals(call.attention, false));
  PrimalWeights weights{Array<double, 4>({dims.B, dims.H, dims.E, *F}), Array<double, 3>({dims.B, dims.H, *F})};
  for (Index b = 0; b < dims.B; ++b)
    for (Index h = 0; h < dims.H; ++h) {
      const Head head = prepare_head(call, b, h);
      PrimalState state = state_for(call, head);
      for (Index j = 0; j < head.tokens.k.shape()[0]; ++j)
        if (head.keep[j]) state.append(row(head.tokens.k, j).data(), row(head.v, j).data());
      const Index at = b * dims.H + h;
      std::copy(state.w().begin(), state.w().end(), weights.w.data() + at * dims.E * *F);
      std::copy(state.z().begin(), state.z().end(), weights.z.data() + at * *F);
    }
  return weights;
}

}  // namespace saddle::primal
