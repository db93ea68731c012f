#include "saddle/kernels/stages/score_pass.hpp"

#include <algorithm>

#include "saddle/kernels/rates.hpp"

namespace saddle::kernels {

namespace {

double count(Index n) { return static_cast<double>(n); }

}  // namespace

LoopOptions loop_for(const Dims& d, double least_shared_work) {
  const double work = count(d.B * d.H) * count(d.N) * count(d.M) * count(d.D + d.E);
  return {Schedule::dynamic, work < least_shared_work ? 1 : 0};
}

Index key_ranges(const Dims& d, double part_bytes) {
  const Index heads = d.B * d.H, wanted = (enough_tasks + heads - 1) / heads;
  const auto bound = static_cast<Index>(most_partial_bytes / std::max(part_bytes, 1.0));
  return std::max<Index>(1, std::min({wanted, bound, d.M / 256}));
}

template <class T>
void add_ranges(const T* parts, Index ranges, Index N, Index D, Rows<T> dq) {
  for (Index range = 0; range < ranges; ++range)
    for (Index i = 0; i < N; ++i) {
      const T* part = parts + (range * N + i) * D;
      T* to = dq[i];
      for (Index c = 0; c < D; ++c) to[c] = range == 0 ? part[c] : to[c] + part[c];
    }
}

template <class T>
void store_lse(const TensorView& lse, Index b, Index h, Index i, const T* values, Index count) {
  const auto& s = lse.stride;
  for (Index n = 0; n < count; ++n) store(lse, b * s[0] + h * s[1] + (i + n) * s[2], static_cast<double>(values[n]));
}

template <class T>
void load_lse(const TensorView& lse, Index b, Index h, Index i, T* values, Index count) {
  const auto& s = lse.stride;
  for (Index n = 0; n < count; ++n) values[n] = static_cast<T>(load(lse, b * s[0] + h * s[1] + (i + n) * s[2]));
}

template <class T>
void row_deltas(Rows<const T> dy, Rows<const T> y, Index count, Index E, T* delta) {
  for (Index i = 0; i < count; ++i) {
    T sum = 0;
    for (Index e = 0; e < E; ++e) sum += dy[i][e] * y[i][e];
    delta[i] = sum;
  }
}

template void add_ranges(const float*, Index, Index, Index, Rows<float>);
template void add_ranges(const double*, Index, Index, Index, Rows<double>);
template void store_lse(const TensorView&, Index, Index, Index, const float*, Index);
template void store_lse(const TensorView&, Index, Index, Index, const double*, Index);
template void load_lse(const TensorView&, Index, Index, Index, float*, Index);
template void load_lse(const TensorView&, Index, Index, Index, double*, Index);
template void row_deltas(Rows<const float>, Rows<const float>, Index, Index, float*);
template void row_deltas(Rows<const double>, Rows<const double>, Index, Index, double*);

bool is_steep(const primal::Attention& attention) {
  for (const primal::Transform& transform : attention.transforms)
    if (const auto* bn = std::get_if<primal::BatchNorm>(&transform); bn && bn->scale == primal::ScaleMode::std)
      return true;
  return false;
}

Estimate score_estimate(const Request& request, std::string_view implementation, DType gradients) {
  const auto cost = [&](primal::Pass pass) {
    return attention_cost(request.attention, request.dims, primal::Form::dual, pass, request.dtype);
  };
  const auto seconds = [&](const primal::Cost& c, DType dtype, bool backward) {
    return rates().seconds({implementation, dtype, backward, c.multiply_adds, c.exps, c.bytes, request.threads});
  };
  Estimate estimate;
  estimate.cost = cost(primal::Pass::forward);
  estimate.seconds = seconds(estimate.cost, request.dtype, false);
  if (!request.backward) return estimate;
  const primal::Cost back = cost(primal::Pass::backward);
  estimate.cost += back;
  estimate.seconds += seconds(back, gradients, true);
  return estimate;
}

}  // namespace saddle::kernels
