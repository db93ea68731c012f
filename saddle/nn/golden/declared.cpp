// Golden cases of declared attentions: the operator on (q, k, v), and MultiheadAttention on whole layers.
#include <torch/autograd.h>

#include "saddle/mechanisms/registry.hpp"
#include "saddle/nn/attention.hpp"
#include "saddle/nn/golden/golden_internal.hpp"
#include "saddle/nn/multihead_attention.hpp"
#include "saddle/nn/taps.hpp"
#include "saddle/nn/tensor.hpp"
#include "saddle/primal/layer.hpp"

namespace saddle::nn {

namespace {

using Parameters = std::map<std::string, Tensor>;

// The same memory; undefined for an empty view.
Tensor borrowed(const TensorView& view) {
  if (!view) return {};
  return torch::from_blob(view.data, view.shape, view.stride, scalar_type(view.dtype));
}
Tensor leaf(const TensorView& view) { return borrowed(view).clone().requires_grad_(); }
Tensor flags(const TensorView& view) { return view ? borrowed(view).ne(0) : Tensor(); }

saddle::Tensor owned(const Tensor& tensor) {
  saddle::Tensor copy(dtype_of(tensor.scalar_type()), Shape(tensor.sizes().begin(), tensor.sizes().end()));
  borrowed(copy.view()).copy_(tensor.detach());
  return copy;
}

// nn::attention, in the place of a kernel.
class Operator final : public kernels::Implementation {
 public:
  std::string_view name() const override { return "operator"; }
  std::string_view summary() const override { return "attention of torch tensors, with its node in the graph"; }
  std::vector<std::string> refusals(const kernels::Request&) const override { return {}; }
  kernels::Estimate estimate(const kernels::Request&) const override { return {}; }

  void forward(const primal::Call& call, const primal::Outputs& outputs) const override {
    borrowed(outputs.y).copy_(attention(call.attention, inputs_of(call)).y.detach());
  }

  void backward(const primal::Call& call, const primal::Gradients& gradients) const override {
    const AttentionInputs inputs = inputs_of(call);
    std::vector<Tensor> leaves{inputs.q, inputs.k, inputs.v};
    std::vector<TensorView> places{gradients.dq, gradients.dk, gradients.dv};
    for (const auto& [name, place] : gradients.parameters) {
      leaves.push_back(inputs.parameters.at(name));
      places.push_back(place);
    }
    const Tensor y = attention(call.attention, inputs).y;
    const auto found = torch::autograd::grad({y}, leaves, {borrowed(gradients.dy)}, {}, false, true);
    for (std::size_t i = 0; i < found.size(); ++i) {
      Tensor place = borrowed(places[i]);
      found[i].defined() ? place.copy_(found[i]) : place.zero_();
    }
  }

 private:
  static AttentionInputs inputs_of(const primal::Call& call) {
    AttentionInputs inputs;
    inputs.q = leaf(call.q);
    inputs.k = leaf(call.k);
    inputs.v = leaf(call.v);
    inputs.key_mask = flags(call.key_mask);
    inputs.mask = flags(call.mask);
    for (const auto& [name, view] : call.parameters) inputs.parameters[name] = leaf(view);
    return inputs;
  }
};

// The written form with which a module owns every parameter that is recorded.
std::string owning(const primal::Layer& layer) {
  primal::Attention value = layer.attention;
  const auto beta = layer.parameters.find("beta");
  for (primal::Transform& transform : value.transforms)
    if (auto* bn = std::get_if<primal::BatchNorm>(&transform); bn != nullptr && beta != layer.parameters.end())
      bn->learn = beta->second.size() == 1 ? primal::Learn::shared : primal::Learn::head;
  return primal::to_text(value);
}

// A module with the weights of a layer.
struct Module {
  explicit Module(const primal::Layer& given) : layer(given) {
    const Index H = layer.heads, X = layer.parameters.at("wq").shape()[1];
    module = MultiheadAttention(MultiheadAttentionOptions(X, H)
                                    .attention(owning(layer))
                                    .key_width(rows("wq") / H)
                                    .value_width(rows("wv") / H)
                                    .batch_first(true));
    module->to(scalar_type(layer.parameters.at("wq").dtype()));
    const torch::NoGradGuard guard;
    for (const auto& [name, tensor] : layer.parameters)
      place_of(name, false).copy_(borrowed(tensor.view()).view_as(place_of(name, false)));
  }

  Index rows(const char* name) const { return layer.parameters.at(name).shape()[0]; }

  // Where a weight, or its gradient, stands in the module: queries, keys and values share one projection.
  Tensor place_of(const std::string& name, bool gradient) {
    const auto part = [&](const Tensor& whole) { return gradient ? whole.grad() : whole; };
    const Index D = rows("wq"), E = rows("wv");
    const bool weight = name[0] == 'w';
    if (name == "wo") return part(module->out_proj->weight);
    if (name == "bo") return part(module->out_proj->bias);
    const Tensor all = part(weight ? module->in_proj_weight : module->in_proj_bias);
    if (name == "wq" || name == "bq") return all.narrow(0, 0, D);
    if (name == "wk" || name == "bk") return all.narrow(0, D, D);
    if (name == "wv" || name == "bv") return all.narrow(0, 2 * D, E);
    return part(module->named_parameters()[name]);
  }

  Tensor operator()(const Tensor& x, const TensorView& key_mask, const TensorView& mask) {
    if (!mask) return module->self_attention(x, flags(key_mask));
    const Tensor hidden = flags(mask).logical_not().flatten(0, 1);
    const Tensor ignored = key_mask ? flags(key_mask).logical_not() : Tensor();
    return std::get<0>(module->forward(x, x, x, ignored, false, hidden));
  }

  const primal::Layer& layer;
  MultiheadAttention module{nullptr};
};

primal::LayerForward forward(const primal::Layer& layer, const saddle::Tensor& x, const TensorView& key_mask,
                             const TensorView& mask) {
  const torch::NoGradGuard guard;
  Module module(layer);
  Taps taps(false);
  primal::LayerForward out;
  out.y = owned(module(borrowed(x.view()), key_mask, mask));
  out.heads = owned(taps.layers.at(0).heads);
  out.head_distance = primal::head_distance(out.heads);
  return out;
}

std::map<std::string, saddle::Tensor> backward(const primal::Layer& layer, const saddle::Tensor& x,
                                               const TensorView& key_mask, const TensorView& mask,
                                               const saddle::Tensor& dy) {
  Module module(layer);
  const Tensor tokens = leaf(x.view());
  module(tokens, key_mask, mask).backward(borrowed(dy.view()));
  std::map<std::string, saddle::Tensor> gradients{{"x", owned(tokens.grad())}};
  for (const auto& [name, tensor] : layer.parameters)
    gradients.emplace(name, owned(module.place_of(name, true).reshape(tensor.shape())));
  return gradients;
}

}  // namespace

std::vector<GoldenCheck> declared_checks() {
  static const Operator torch_operator;
  const mechanisms::DeclaredLayer layer{"module", [](const kernels::Request&) { return std::vector<std::string>(); },
                                        forward, backward};
  std::vector<GoldenCheck> checks;
  for (const mechanisms::Mechanism* mechanism : mechanisms::all_declared())
    for (const GoldenCheck& own : mechanism->golden)
      checks.push_back({own.mechanism, [layer](const TensorFile& golden, DType dtype) {
                          return mechanisms::check_declared(golden, dtype, {&torch_operator}, {layer});
                        }});
  return checks;
}

}  // namespace saddle::nn
