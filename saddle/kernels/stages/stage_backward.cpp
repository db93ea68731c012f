#include <algorithm>

#include "saddle/kernels/stages/row_loops.hpp"
#include "saddle/kernels/stages/stage_state.hpp"

namespace saddle::kernels {

using namespace stages;

template <class T>
Rows<const T> Stage<T>::dy(const primal::Gradients& gradients) {
  Held<T>& held = state_->dy;
  const Slice slice = slice_of(gradients.dy, state_->b, state_->h);
  held.rows = in_place<T>(slice);
  if (held.rows) return held.rows;
  held = Held<T>::fresh(slice.rows, slice.columns);
  for (Index i = 0; i < slice.rows; ++i) load_row(slice, i, held.buffer.rows()[i]);
  return held.rows;
}

template <class T>
Rows<const BFloat16> Stage<T>::raw_dy(const primal::Gradients& gradients) const {
  return in_place<BFloat16>(slice_of(gradients.dy, state_->b, state_->h));
}

template <class T>
typename Stage<T>::Targets Stage<T>::targets(const primal::Gradients& gradients, bool raw) {
  State& s = *state_;
  s.wanted.clear();
  bool theta = false, ordinary_theta = false, statistics = false;
  for (std::size_t t = 0; t < s.theta.size(); ++t) {
    const auto name =
        std::visit([](const auto& part) { return std::string(part.parameter); }, s.call.attention.transforms[t]);
    const bool wanted = gradients.parameters.contains(name);
    s.wanted.push_back(wanted);
    theta = theta || wanted;
    ordinary_theta = ordinary_theta || (wanted && t < s.ordinary);
    statistics = statistics || std::holds_alternative<primal::BatchNorm>(s.call.attention.transforms[t]);
  }
  // Keys feel the gradient of the queries through the statistics that both share.
  bool need_q = gradients.dq || theta || (gradients.dk && statistics);
  bool need_k = gradients.dk || ordinary_theta;
  bool need_v{gradients.dv};
  Targets targets;
  const auto stand_in = [&](bool& needed, bool as_they_are, const TensorView& tensor, Rows<BFloat16>& rows) {
    if (!raw || !needed || !as_they_are || !tensor) return;
    rows = in_place<BFloat16>(slice_of(tensor, s.b, s.h));
    needed = !rows;
  };
  const bool plain = s.theta.empty() && !s.features && !s.rbf;
  stand_in(need_q, plain, gradients.dq, targets.raw_dq);
  stand_in(need_k, plain && !s.pooled, gradients.dk, targets.raw_dk);
  stand_in(need_v, !s.pooled, gradients.dv, targets.raw_dv);
  const auto place = [&](bool needed, const TensorView& tensor, bool pooled, Index n, Index columns, Buffer<T>& own) {
    if (!needed) return Rows<T>{};
    if (!pooled)
      if (const Rows<T> rows = in_place<T>(slice_of(tensor, s.b, s.h))) return rows;
    own = Buffer<T>(n, columns);
    return own.rows();
  };
  s.dq = place(need_q, gradients.dq, false, s.dims.N, s.dims.D, s.own_dq);
  s.dk = place(need_k, gradients.dk, s.pooled.has_value(), s.K, s.dims.D, s.own_dk);
  s.dv = place(need_v, gradients.dv, s.pooled.has_value(), s.K, s.dims.E, s.own_dv);
  targets.dq = s.dq;
  targets.dk = s.dk;
  targets.dv = s.dv;
  if (s.features && !s.features->elementwise()) {
    if (need_q) targets.dq = (s.dphi_q = Buffer<T>(s.dims.N, s.features->F())).rows();
    if (need_k) targets.dk = (s.dphi_k = Buffer<T>(s.K, s.features->F())).rows();
  }
  if (need_q && !s.row.empty()) {
    s.drow.resize(s.row.size());
    targets.drow = s.drow.data();
  }
  if (need_k && !s.column.empty()) {
    s.dcolumn.resize(s.column.size());
    targets.dcolumn = s.dcolumn.data();
  }
  return targets;
}

// From gradients with respect to the problem to those after the ordinary transforms, in place.
template <class T>
void Stage<T>::State::pull_scores(std::vector<std::vector<double>>& dtheta) {
  if (features && features->elementwise()) {
    if (dq) features->pullback({}, problem.q, dq, dq, dims.N, {});
    if (dk) features->pullback({}, problem.k, dk, dk, K, keep_keys);
  } else if (features) {
    const HeldTokens<T> before = run_transforms(ordinary, nullptr);
    if (dq) features->pullback(before.q.rows, problem.q, dphi_q.rows(), dq, dims.N, {});
    if (dk) features->pullback(before.k.rows, problem.k, dphi_k.rows(), dk, K, keep_keys);
  }
  // r = -gamma |q|^2 and c = -gamma |k|^2 with 2 gamma = a; moving the centre changes nothing.
  if (rbf && dq && !drow.empty())
    for (Index i = 0; i < dims.N; ++i) add_scaled(dq[i], static_cast<T>(-a) * drow[i], problem.q[i], dims.D);
  if (rbf && dk)
    for (Index j = 0; j < K; ++j) add_scaled(dk[j], static_cast<T>(-a) * dcolumn[j], problem.k[j], dims.D);
  if (folded == nullptr || !dq) return;
  if (!per_query && !global_fold) return;  // no key exists
  Reader<T> queries = query_reader(), keys = key_reader();
  FoldGradient<T> gradient{dq, dk, drow.empty() ? nullptr : drow.data()};
  if (per_query)
    QueryFold{*folded, theta.back()[0], a}.pullback<T>(queries, dims.N, keys, K, keep_keys, visible(), gradient);
  else
    global_fold->pullback(queries, dims.N, keys, K, keep_keys, gradient);
  dtheta.back()[0] += gradient.dbeta;
}

template <class T>
void Stage<T>::State::pull_transforms(std::vector<std::vector<double>>& dtheta) {
  if (ordinary == 0 || (!dq && !dk)) return;
  std::vector<HeldTokens<T>> inputs;
  HeldTokens<T> last = run_transforms(ordinary - 1, &inputs);
  inputs.push_back(std::move(last));
  for (std::size_t t = ordinary; t-- > 0;) {
    const TokenRows<const T> in = rows_of(inputs[t]);
    stages::pullback<T>(call.attention.transforms[t], theta[t], in,
                        {dq, dk, in.N, in.K, in.D, in.keep_queries, in.keep_keys},
                        wanted[t] ? std::span<double>(dtheta[t]) : std::span<double>());
    inputs.pop_back();
  }
}

template <class T>
void Stage<T>::pullback(const primal::Gradients& gradients, std::vector<std::vector<double>>& dtheta) {
  State& s = *state_;
  dtheta.resize(s.theta.size());
  for (std::size_t t = 0; t < s.theta.size(); ++t) dtheta[t].resize(s.theta[t].size(), 0.0);
  s.pull_scores(dtheta);
  s.pull_transforms(dtheta);
  const auto write = [&](const TensorView& tensor, Rows<const T> rows, const Buffer<T>& own, bool pooled, Index n) {
    if (!tensor || !own) return;
    const Slice slice = slice_of(tensor, s.b, s.h);
    if (pooled) {
      s.pooled->pullback(rows, slice);
      return;
    }
    for (Index i = 0; i < n; ++i) store_row(slice, i, rows[i]);
  };
  write(gradients.dq, s.dq, s.own_dq, false, s.dims.N);
  write(gradients.dk, s.dk, s.own_dk, s.pooled.has_value(), s.K);
  write(gradients.dv, s.dv, s.own_dv, s.pooled.has_value(), s.K);
}

template Rows<const float> Stage<float>::dy(const primal::Gradients&);
template Rows<const double> Stage<double>::dy(const primal::Gradients&);
template Rows<const BFloat16> Stage<float>::raw_dy(const primal::Gradients&) const;
template Rows<const BFloat16> Stage<double>::raw_dy(const primal::Gradients&) const;
template Stage<float>::Targets Stage<float>::targets(const primal::Gradients&, bool);
template Stage<double>::Targets Stage<double>::targets(const primal::Gradients&, bool);
template void Stage<float>::pullback(const primal::Gradients&, std::vector<std::vector<double>>&);
template void Stage<double>::pullback(const primal::Gradients&, std::vector<std::vector<double>>&);

}  // namespace saddle::kernels
