#include "saddle/nn/composed/heads.hpp"

#include "saddle/base/parallel.hpp"

namespace saddle::nn::composed {

namespace {

// What the key sets let through, [H|1,N,M]: one head stands for all unless they are told apart.
Tensor declared_visibility(const std::vector<primal::KeySet>& keys, Index H, Index N, Index M) {
  const Untraced constant;
  if (keys.empty()) return torch::ones({1, N, M}, torch::kBool);
  bool per_head = false;
  for (const primal::KeySet& part : keys) per_head |= std::holds_alternative<primal::Fixed>(part);
  Tensor visible = torch::empty({per_head ? H : 1, N, M}, torch::kBool);
  bool* const data = visible.data_ptr<bool>();
  parallel_for(visible.size(0) * N, 64, [&](Index begin, Index end) {
    for (Index row = begin; row < end; ++row)
      for (Index j = 0; j < M; ++j) data[row * M + j] = primal::sees(keys, row / N, row % N, j);
  });
  return visible;
}

// Which tokens form which pooled key: 0 or 1, [K,M].
Tensor window_matrix(const primal::Pooling& pooling, Index factor, Index M, const torch::TensorOptions& options) {
  const Untraced constant;
  const primal::Windows windows = primal::pooling_windows(pooling, factor, M);
  Tensor matrix = torch::zeros({static_cast<Index>(windows.size()), M}, torch::kFloat32);
  float* row = matrix.data_ptr<float>();
  for (const auto& window : windows) {
    for (Index t : window) row[t] = 1;
    row += M;
  }
  return matrix.to(options);
}

void pool(const primal::Pooling& pooling, primal::Visibility rule, Index factor, Heads& heads) {
  const auto options = heads.q.options().requires_grad(false);
  const Tensor windows = window_matrix(pooling, factor, heads.v.size(2), options);
  // [B|1,1,K] and [B|1,G|1,N,K]: how many tokens of a window exist, and how many of these are seen.
  const Tensor existing = heads.keep.to(options).matmul(windows.t());
  const Tensor seen = heads.visible.to(options).matmul(windows.t());
  const Tensor count = existing.clamp_min(1).unsqueeze(-1);
  heads.k = windows.matmul(heads.k) / count.unsqueeze(2);
  heads.v = windows.matmul(heads.v) / count;
  heads.keep = existing > 0;
  heads.visible = seen > 0;
  if (rule == primal::Visibility::all) heads.visible = heads.visible & (seen == existing.unsqueeze(2));
}

}  // namespace

Heads all_heads(const primal::Attention& value, const AttentionInputs& inputs) {
  const Dims dims = dims_of(inputs);
  const auto device = inputs.q.device();
  Heads heads;
  heads.q = inputs.q;
  heads.k = inputs.k.unsqueeze(2);
  heads.v = inputs.v;
  heads.keep = torch::ones({1, 1, dims.M}, torch::dtype(torch::kBool).device(device));
  heads.visible = declared_visibility(value.keys, dims.H, dims.N, dims.M).to(device).unsqueeze(0);
  if (inputs.mask.defined()) heads.visible = heads.visible & inputs.mask.to(device, torch::kBool);
  if (!inputs.key_mask.defined()) return heads;
  heads.keep = inputs.key_mask.to(device, torch::kBool).unsqueeze(1);
  heads.visible = heads.visible & heads.keep.unsqueeze(2);
  if (dims.N == dims.M) heads.keep_queries = heads.keep;
  const Tensor missing = ~heads.keep.unsqueeze(-1);  // [B,1,M,1]
  heads.k = heads.k.masked_fill(missing.unsqueeze(2), 0);
  heads.v = heads.v.masked_fill(missing, 0);
  return heads;
}

Tensor select_heads(const Tensor& x, const std::vector<Index>& heads, Index dimension) {
  const Index H = x.size(dimension);
  if (H == 1 || H == static_cast<Index>(heads.size())) return x;  // groups list their heads in order
  return x.index_select(dimension, torch::tensor(heads, torch::dtype(torch::kInt64).device(x.device())));
}

Heads pooled_heads(const primal::Attention& value, const Heads& all, const std::vector<Index>& heads, Index factor) {
  Heads group = all;
  for (Tensor* tensor : {&group.q, &group.k, &group.v, &group.visible}) *tensor = select_heads(*tensor, heads, 1);
  if (factor > 1) pool(*value.pooling, primal::visibility_of(value, *value.pooling), factor, group);
  return group;
}

Tensor mean_over(const Tensor& x, const Tensor& counted) {
  const Tensor count = counted.sum(-1, true).clamp_min(1);
  return x.masked_fill(~counted.unsqueeze(-1), 0).sum(-2) / count;
}

}  // namespace saddle::nn::composed
