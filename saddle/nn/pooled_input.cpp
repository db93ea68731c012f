#include "saddle/nn/pooled_input.hpp"

#include <algorithm>
#include <optional>

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

namespace {

// Windows of the same size that follow each other without a gap.
struct Run {
  int64_t first, size, count;  // token, tokens of a window, windows
};

// Nothing unless there are windows and every one begins where the one before it ends, as in one dimension.
std::optional<std::vector<Run>> runs_of(const primal::Windows& windows) {
  if (windows.empty()) return std::nullopt;
  std::vector<Run> runs;
  int64_t next = 0;
  for (const std::vector<Index>& window : windows) {
    const auto size = static_cast<int64_t>(window.size());
    if (runs.empty() || runs.back().size != size) runs.push_back({next, size, 0});
    ++runs.back().count;
    for (const Index token : window)
      if (token != next++) return std::nullopt;
  }
  return runs;
}

// [B,M,..] -> [B,K,..]
Tensor sum_of_runs(const std::vector<Run>& runs, const Tensor& all) {
  std::vector<Tensor> parts;
  for (const Run& run : runs) {
    const Tensor tokens = all.narrow(1, run.first, run.size * run.count);
    parts.push_back(run.size == 1 ? tokens : tokens.unflatten(1, {run.count, run.size}).sum(2));
  }
  return parts.size() == 1 ? parts[0] : torch::cat(parts, 1);
}

Tensor sum_of_windows(const primal::Windows& windows, const Tensor& all) {
  std::vector<int64_t> tokens, places;
  for (std::size_t w = 0; w < windows.size(); ++w)
    for (const Index token : windows[w]) {
      tokens.push_back(token);
      places.push_back(static_cast<int64_t>(w));
    }
  auto shape = all.sizes().vec();
  shape[1] = static_cast<int64_t>(windows.size());
  const auto options = torch::TensorOptions(torch::kInt64).device(all.device());
  return torch::zeros(shape, all.options())
      .index_add(1, torch::tensor(places, options), all.index_select(1, torch::tensor(tokens, options)));
}

}  // namespace

PooledInput pool_input(const primal::Pooling& pooling, Index factor, const Tensor& x, const Tensor& key_mask) {
  if (factor == 1) return {x, key_mask};
  const primal::Windows windows = primal::pooling_windows(pooling, factor, x.size(1));
  const auto runs = runs_of(windows);
  const auto sum = [&](const Tensor& all) { return runs ? sum_of_runs(*runs, all) : sum_of_windows(windows, all); };
  if (!key_mask.defined()) return {sum(x) / sum(torch::ones({1, x.size(1), 1}, x.options().requires_grad(false))), {}};
  const Tensor count = sum(key_mask.to(x.scalar_type()));
  const Tensor kept = x.masked_fill(key_mask.logical_not().unsqueeze(2), 0);
  return {sum(kept) / count.clamp_min(1).unsqueeze(2), count.gt(0)};
}

}  // namespace saddle::nn
