#include "saddle/kernels/linear/key_order.hpp"

#include <algorithm>
#include <numeric>

namespace saddle::kernels::linear_kernel {

namespace {

// The first query that sees each pooled key: that of the first or the last kept token of its window.
std::vector<Index> window_arrivals(const primal::Call& call, Index b, const primal::Windows& windows) {
  const bool any = visibility_of(call.attention, *call.attention.pooling) == primal::Visibility::any;
  const auto kept = [&](Index t) {
    return !call.key_mask || load(call.key_mask, b * call.key_mask.stride[0] + t * call.key_mask.stride[1]) != 0;
  };
  std::vector<Index> arrivals;
  for (const auto& window : windows) {
    Index arrival = -1;
    for (Index t : window)
      if (kept(t) && (arrival < 0 || (any ? t < arrival : t > arrival))) arrival = t;
    arrivals.push_back(arrival);
  }
  return arrivals;
}

// The first query that sees each of the K keys, were they all kept.
std::vector<Index> arrivals_of(const primal::Call& call, Index b, Index K, const primal::Windows& windows) {
  if (!windows.empty()) return window_arrivals(call, b, windows);
  std::vector<Index> arrivals(K);
  std::iota(arrivals.begin(), arrivals.end(), Index{0});
  return arrivals;
}

}  // namespace

KeyOrder key_order(const primal::Call& call, Index b, Index K, const std::vector<std::uint8_t>& keep,
                   const primal::Windows& windows) {
  const Index N = call.dims().N;
  const bool causal = is_causal(call.attention.keys);
  const std::vector<Index> arrivals = causal ? arrivals_of(call, b, K, windows) : std::vector<Index>{};
  KeyOrder order;
  order.index.reserve(K);
  for (Index j = 0; j < K; ++j) {
    const bool seen = (keep.empty() || keep[j]) && (!causal || arrivals[j] < N);
    (seen ? order.index : order.unseen).push_back(j);
  }
  const auto earlier = [&](Index i, Index j) { return arrivals[i] < arrivals[j]; };
  if (causal && !std::is_sorted(order.index.begin(), order.index.end(), earlier))
    std::stable_sort(order.index.begin(), order.index.end(), earlier);
  if (causal)
    for (Index j : order.index) order.arrival.push_back(arrivals[j]);
  order.first = order.index.empty() ? N : causal ? order.arrival.front() : 0;
  return order;
}

}  // namespace saddle::kernels::linear_kernel
