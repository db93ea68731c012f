#include "saddle/nn/composed.hpp"

#include <ATen/ExpandUtils.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>

#include "saddle/nn/composed/heads.hpp"
#include "saddle/nn/tensor.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::nn {

namespace {

using composed::Heads;

template <class... Args>
[[noreturn]] void refuse(const primal::Attention& value, fmt::format_string<Args...> format, Args&&... args) {
  throw InvalidArgument(
      fmt::format("[{}] {}", primal::to_text(value), fmt::format(format, std::forward<Args>(args)...)));
}

// x broadcast to [B,H,N,M].
Tensor broadcast(const primal::Attention& value, const char* name, const Tensor& x, const Dims& dims) {
  const Shape full{dims.B, dims.H, dims.N, dims.M};
  if (!at::is_expandable_to(x.sizes(), full))
    refuse(value, "{} has shape {}: it must broadcast to (B,H,N,M) = {}", name, to_string(x.sizes().vec()),
           to_string(full));
  return x.expand(full);
}

void check_score_bias(const primal::Attention& value, const AttentionInputs& inputs) {
  if (!std::holds_alternative<primal::ExpDot>(value.kernel) && !std::holds_alternative<primal::Rbf>(value.kernel))
    refuse(value, "found a score bias: it adds to the scores of an exponential kernel, use softmax or rbf");
  if (value.pooling)
    refuse(value, "found a score bias for (N,M) pairs, but sh pools the keys: leave one of the two out");
  if (!inputs.score_bias.is_floating_point())
    refuse(value, "score_bias has dtype {}: use a floating one, and `mask` for what is true or false",
           c10::toString(inputs.score_bias.scalar_type()));
}

void check(const primal::Attention& value, const AttentionInputs& inputs, const Wanted& wanted) {
  primal::Call call;
  call.attention = value;
  call.q = view_of(inputs.q);
  call.k = view_of(inputs.k);
  call.v = view_of(inputs.v);
  call.key_mask = view_of(inputs.key_mask);
  call.mask = view_of(inputs.mask);
  call.skip = view_of(inputs.skip);
  for (const auto& [name, tensor] : inputs.parameters) call.parameters[name] = view_of(tensor);
  call.dropout = inputs.dropout;
  primal::validate(call);
  if (wanted.lse && (!std::holds_alternative<primal::RowSum>(value.normaliser) ||
                     primal::sign_of(value.kernel) == primal::Sign::changing))
    refuse(value, "log-sum-exp exists only for a row sum over a kernel that does not change sign");
  if (inputs.score_bias.defined()) check_score_bias(value, inputs);
}

// The call in the type that is computed in, with every parameter: those not given have their initial values.
AttentionInputs prepare(const primal::Attention& value, AttentionInputs inputs) {
  const Dims dims = dims_of(inputs);
  const auto options = torch::dtype(inputs.q.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32)
                           .device(inputs.q.device());
  for (const primal::ParameterInfo& info : primal::parameters(value, dims))
    if (!inputs.parameters.contains(info.name))
      inputs.parameters[info.name] = torch::tensor(info.initial, torch::kFloat64).view(info.shape);
  for (Tensor* tensor : {&inputs.q, &inputs.k, &inputs.v, &inputs.skip, &inputs.score_bias})
    if (tensor->defined()) *tensor = tensor->to(options);
  for (auto& [name, tensor] : inputs.parameters) tensor = tensor.to(options);
  return inputs;
}

// The outputs of heads that share a pooling factor; y without bias and skip.
AttentionOutputs run_group(const primal::Attention& value, const AttentionInputs& inputs, const Heads& all,
                           const std::vector<Index>& index, Index factor) {
  Heads heads = composed::pooled_heads(value, all, index, factor);
  for (std::size_t t = 0; t < value.transforms.size(); ++t) {
    const auto name = std::visit([](const auto& part) { return std::string(part.parameter); }, value.transforms[t]);
    const Tensor theta = name.empty() ? Tensor() : composed::select_heads(inputs.parameters.at(name), index, 0);
    composed::transform_heads(value, t, theta, heads);
  }
  const auto [weights, lse] = composed::weigh(value, heads, inputs.score_bias);
  const Tensor applied = inputs.dropout.p == 0
                             ? weights
                             : weights * composed::dropout_factors(inputs.dropout, weights, index, inputs.q.size(1));
  return {applied.matmul(heads.v), weights, lse, {}};
}

// Heads in the order of the call, out of groups of them.
class Assembly {
 public:
  explicit Assembly(const std::map<Index, std::vector<Index>>& groups) {
    for (const auto& [factor, heads] : groups) order_.insert(order_.end(), heads.begin(), heads.end());
  }
  // One [B,G,..] for each group -> [B,H,..]
  Tensor operator()(const std::vector<Tensor>& parts) const {
    if (parts.size() == 1) return parts[0];
    const Tensor order = torch::tensor(order_, torch::dtype(torch::kInt64).device(parts[0].device()));
    return torch::cat(parts, 1).index_select(1, order.argsort());
  }

 private:
  std::vector<Index> order_;
};

}  // namespace

AttentionOutputs composed_attention(const primal::Attention& value, const AttentionInputs& given,
                                    const Wanted& wanted) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  follow_torch_threads();
  const Dims dims = dims_of(given);
  AttentionInputs inputs = given;
  if (inputs.mask.defined()) inputs.mask = broadcast(value, "mask", inputs.mask, dims);
  if (inputs.score_bias.defined()) inputs.score_bias = broadcast(value, "score_bias", inputs.score_bias, dims);
  check(value, inputs, wanted);
  inputs = prepare(value, std::move(inputs));

  std::map<Index, std::vector<Index>> groups;  // heads by pooling factor
  for (Index h = 0; h < dims.H; ++h) groups[primal::factor_of(value, dims, h)].push_back(h);
  const Heads all = composed::all_heads(value, inputs);
  const Index K = primal::weight_columns(value, dims);
  std::vector<Tensor> y, weights, lse;
  for (const auto& [factor, heads] : groups) {
    const AttentionOutputs part = run_group(value, inputs, all, heads, factor);
    y.push_back(part.y);
    lse.push_back(part.lse);
    if (wanted.weights || wanted.column_sums)
      weights.push_back(torch::constant_pad_nd(part.weights, {0, K - part.weights.size(3)}));
  }

  const Assembly whole(groups);
  const auto type = given.q.scalar_type();
  AttentionOutputs out;
  out.y = whole(y);
  if (value.bias) out.y = out.y + inputs.parameters.at("bias").unsqueeze(1);
  if (value.residual) out.y = out.y + inputs.skip;
  out.y = out.y.to(type).transpose(1, 2).contiguous().transpose(1, 2);
  if (wanted.weights) out.weights = whole(weights).to(type);
  if (wanted.lse) out.lse = whole(lse);
  if (wanted.column_sums) out.column_sums = whole(weights).sum(2).to(type);
  return out;
}

}  // namespace saddle::nn
