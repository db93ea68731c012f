#include "saddle/nn/pooled_input.hpp"

#include <algorithm>

namespace saddle::nn {

using torch::Tensor;

std::vector<HeadGroup> head_groups(const primal::Pooling& pooling, Index H) {
  std::vector<HeadGroup> groups;
  const std::vector<Index> factors = primal::pooling_factors(pooling, H);
  for (Index h = 0; h < H; ++h) {
    auto found = std::find_if(groups.begin(), groups.end(), [&](const HeadGroup& g) { return g.factor == factors[h]; });
    if (found == groups.end()) found = groups.insert(groups.end(), {factors[h], {}});
    found->heads.push_back(h);
  }
  return groups;
}

PooledInput pool_input(const primal::Pooling& pooling, Index factor, const Tensor& x, const Tensor& key_mask) {
  if (factor == 1) return {x, key_mask};
  const primal::Windows windows = primal::pooling_windows(pooling, factor, x.size(1));
  std::vector<int64_t> tokens, places;
  for (std::size_t w = 0; w < windows.size(); ++w)
    for (const Index token : windows[w]) {
      tokens.push_back(token);
      places.push_back(static_cast<int64_t>(w));
    }
  const auto K = static_cast<int64_t>(windows.size());
  const Tensor from = torch::tensor(tokens), to = torch::tensor(places);
  const auto sum = [&](const Tensor& all) {
    auto shape = all.sizes().vec();
    shape[1] = K;
    return torch::zeros(shape, all.options()).index_add(1, to, all.index_select(1, from));
  };
  if (!key_mask.defined()) {
    const Tensor count = torch::zeros({K}, x.options().requires_grad(false))
                             .index_add(0, to, torch::ones_like(to, x.options().requires_grad(false)));
    return {sum(x) / count.unsqueeze(1), {}};
  }
  const Tensor count = sum(key_mask.to(x.scalar_type()));
  const Tensor kept = x.masked_fill(key_mask.logical_not().unsqueeze(2), 0);
  return {sum(kept) / count.clamp_min(1).unsqueeze(2), count.gt(0)};
}

}  // namespace saddle::nn
