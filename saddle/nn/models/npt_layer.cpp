// One layer of attention between rows or attributes.
#include <fmt/format.h>

#include <cmath>

#include "saddle/nn/dense/dropout.hpp"
#include "saddle/nn/dense/mlp.hpp"
#include "saddle/nn/models/npt.hpp"
#include "saddle/nn/models/parts_internal.hpp"
#include "saddle/nn/written.hpp"
#include "saddle/primal/cost.hpp"

namespace saddle::nn {

namespace {

constexpr const char* self_name = "npt";

// Scores are divided by the root of the whole width, not of a head's, unless the written form says by what.
primal::Attention scaled(const std::string& text, int64_t width) {
  primal::Attention value = parsed(text);
  if (auto* const kernel = std::get_if<primal::ExpDot>(&value.kernel); kernel != nullptr && !kernel->scale)
    kernel->scale = 1 / std::sqrt(static_cast<double>(width));
  return value;
}

double linear_cost(const torch::nn::Linear& layer, int64_t rows) {
  return layer.is_empty() ? 0.0 : static_cast<double>(rows) * static_cast<double>(layer->weight.numel());
}

}  // namespace

NptLayerImpl::NptLayerImpl(const NptLayerOptions& given) : options(given) { reset(); }

mechanisms::LayerPlace NptLayerImpl::place() const {
  mechanisms::LayerPlace place;
  place.X = options.width();
  place.H = options.heads();
  place.N = options.tokens().most;
  place.index = options.tokens().layer;
  place.dropout = options.attention_dropout();
  return place;
}

void NptLayerImpl::reset() {
  const int64_t F = options.width(), H = options.heads();
  require_positive(self_name, {{"width", F}, {"heads", H}});
  require_word(self_name, "norm", options.norm(), {"pre", "post", "none"});
  if (F % H != 0)
    throw InvalidArgument(fmt::format("[{}] width {} cannot be cut into {} heads", self_name, F, H),
                          "the width of an attribute must be a multiple of the number of heads");
  if (options.network_depth() < 0)
    throw InvalidArgument(
        fmt::format("[{}] network_depth is {}, at least 0 is needed", self_name, options.network_depth()));
  if (options.norm() != "none") {
    ln0 = register_module("ln0", Norm(NormOptions(F).eps(options.norm_eps())));
    ln1 = register_module("ln1", Norm(NormOptions(F).eps(options.norm_eps())));
  }
  declared_layer_ = mechanisms::find_layer(options.attention());
  if (declared_layer_) {
    if (!options.separate_residual())
      throw InvalidArgument(
          fmt::format("[{}] '{}' has no queries that could be the residual", self_name, options.attention()),
          "separate_residual=true gives it a linear map of its own");
    layer = register_module("layer", make_layer(*declared_layer_, place()));
  } else {
    value_ = scaled(options.attention(), F);
    fc_q = register_module("fc_q", torch::nn::Linear(F, F));
    fc_k = register_module("fc_k", torch::nn::Linear(F, F));
    fc_v = register_module("fc_v", torch::nn::Linear(F, F));
    if (options.mix_heads()) fc_mix_heads = register_module("fc_mix_heads", torch::nn::Linear(F, F));
    attention_parameters_ = learnable_parameters(value_, H, F / H, F / H);
    for (auto& [name, tensor] : attention_parameters_) tensor = register_parameter(name, tensor);
  }
  if (options.separate_residual()) fc_res = register_module("fc_res", torch::nn::Linear(F, F));
  network.clear();
  if (options.network_depth() == 0) return;
  // Activations have the odd numbers.
  torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>> children;
  for (int64_t number = 0; number <= options.network_depth(); ++number) {
    network.emplace_back(number == 0 ? F : 4 * F, number == options.network_depth() ? F : 4 * F);
    children.insert(std::to_string(2 * number), network.back().ptr());
  }
  rff = register_module("rff", torch::nn::ModuleDict(children));
}

void NptLayerImpl::pretty_print(std::ostream& stream) const {
  stream << "saddle::nn::NptLayer(" << options.width() << ", heads=" << options.heads()
         << ", attention=" << options.attention() << ")";
}

Tensor NptLayerImpl::attended(const Tensor& x, const Tensor& queries) {
  const auto heads = [&](const Tensor& tokens) { return tokens.unflatten(2, {options.heads(), -1}).transpose(1, 2); };
  AttentionInputs inputs;
  inputs.q = heads(queries);
  inputs.k = heads(nn::linear(x, fc_k->weight, fc_k->bias));
  inputs.v = heads(nn::linear(x, fc_v->weight, fc_v->bias));
  if (value_.residual) inputs.skip = heads(x.to(inputs.q.scalar_type()));
  inputs.parameters = attention_parameters_;
  if (is_training()) inputs.dropout = weight_dropout(value_, options.attention_dropout());
  Wanted wanted;
  wanted.weights = tap_wants_weights();
  const AttentionOutputs outputs = attention(value_, inputs, wanted);
  tap(outputs.y, outputs.weights, {}, {{"keys", inputs.k}, {"values", inputs.v}});
  const Tensor y = outputs.y.transpose(1, 2).flatten(2);
  return fc_mix_heads.is_empty() ? y : nn::linear(y, fc_mix_heads->weight, fc_mix_heads->bias);
}

Tensor NptLayerImpl::added(const Tensor& h, const Tensor& seen) {
  if (network.empty()) return h + seen;
  const double p = is_training() ? options.dropout() : 0;
  LinearOptions out;
  out.dtype = h.scalar_type();
  if (p == 0) {
    out.residual = h;
    if (network.size() == 2)
      return mlp(seen, {network[0]->weight, network[0]->bias, network[1]->weight, network[1]->bias}, out);
  }
  Tensor hidden = seen;
  for (std::size_t i = 0; i + 1 < network.size(); ++i)
    hidden = nn::dropout(linear_gelu(hidden, network[i]->weight, network[i]->bias), p);
  const Tensor last = nn::linear(hidden, network.back()->weight, network.back()->bias, out);
  return p == 0 ? last : nn::dropout(last, p, h);
}

Tensor NptLayerImpl::forward(const Tensor& x) {
  const auto type = x.scalar_type();
  const bool pre = options.norm() == "pre", post = options.norm() == "post";
  const double p = is_training() ? options.dropout() : 0;
  const Tensor normed = pre ? ln0(x) : x;
  Tensor residual, o;
  if (layer) {
    o = layer->forward(normed, {});
  } else {
    const Tensor queries = nn::linear(normed, fc_q->weight, fc_q->bias);
    if (!options.separate_residual()) residual = queries.to(type);
    o = attended(x, queries);
  }
  LinearOptions out;
  out.dtype = type;
  if (options.separate_residual()) residual = nn::linear(x, fc_res->weight, fc_res->bias, out);
  Tensor h = nn::dropout(o.to(type), p, residual);
  if (post) h = ln0(h, type);
  const Tensor y = added(h, pre ? ln1(h) : h);
  return post ? ln1(y, type) : y;
}

double NptLayerImpl::multiply_adds(int64_t M) const {
  double sum = linear_cost(fc_res, M);
  for (const torch::nn::Linear& each : network) sum += linear_cost(each, M);
  if (declared_layer_) {
    mechanisms::LayerPlace longer = place();
    longer.N = M;
    return sum + declared_layer_->cost(longer, 1, primal::Pass::forward, DType::f32).multiply_adds;
  }
  for (const torch::nn::Linear& map : {fc_q, fc_k, fc_v, fc_mix_heads}) sum += linear_cost(map, M);
  const Index D = options.width() / options.heads();
  const Dims dims{1, options.heads(), M, M, D, D};
  return sum +
         primal::attention_cost(value_, dims, primal::cheaper_form(value_, dims), primal::Pass::forward).multiply_adds;
}

}  // namespace saddle::nn
