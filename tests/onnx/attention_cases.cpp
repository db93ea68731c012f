#define TOML_HEADER_ONLY 0
#include <toml++/toml.h>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/registry.hpp"
#include "saddle/nn/attention.hpp"
#include "saddle/nn/written.hpp"
#include "tests/onnx/cases.hpp"

namespace saddle::nn::onnx_cases {

namespace {

// Beside those of the mechanisms.
const std::vector<std::string> written{
    "softmax(scale=0.7)",
    "rbf(gamma=0.4)",
    "poly(degree=3,coef0=0.5)",
    "linear(relu)",
    "linear(taylor,order=3)+one",
    "linear(random,count=7,seed=3)",
    "cosine",
    "softmax+sum(den_eps=0.3)",
    "rbf+constant(2.5)",
    "softmax+bn(scale=std,learn=head)",
    "softmax+bn(stats=subset,scale=std)",
    "softmax+l2",
    "softmax+conv1d(5,share=true)",
    "softmax+conv1d(3,axis=token)",
    "softmax+conv2d(3x3)",
    "softmax+conv2d(3x3,axis=token)",
    "rbf+bn(scale=std)+conv1d(3)+l2",
    "softmax+conv1d(3)+bn(stats=subset,scale=std,learn=shared)",
    "linear(random,count=5)+bn(stats=subset)+l2",
    "softmax+sh(2,3,tail=drop)",
    "softmax+sh(2,3,visibility=all)",
    "softmax+sh(1,2,pool=2d,grid=3x4,prefix=1)",
    "softmax+sh(2,3,pool=2d,grid=3x4,prefix=1,tail=drop)",
    "softmax+bn(scale=std,learn=head)+sh(2,1,4,1)+causal",
    "linear(elu1)+bn(beta=0.5,learn=shared)+sh(1,2)",
    "softmax+conv1d(3)+sh(1,2)+window(1)",
    "softmax+fixed(3,num_verts=2)",
    "softmax+padding+explicit",
    "softmax+conv1d(3,axis=token,leak=allow)+bn+causal",
    "linear(relu)+bn+sh(1,2)+local(3)",
    "linear(elu1)+residual",
    "rbf+bn(learn=head)+sh(1,2)+window(2)+bias+residual",
};

std::vector<std::string> forms() {
  std::vector<std::string> all = written;
  for (const mechanisms::Mechanism* mechanism : mechanisms::all_declared()) {
    const toml::table table = toml::parse(mechanisms::text_of(*mechanism).cases);
    for (const toml::node& text : *table["attentions"].as_array()) all.push_back(text.value<std::string>().value());
  }
  return all;
}

// B is left open.
const std::vector<Dims> shapes{{1, 3, 4, 5, 3, 2}, {1, 2, 6, 6, 6, 5}, {1, 4, 7, 7, 4, 3}, {1, 2, 3, 13, 2, 2}};

struct Form {
  std::string text;
  Dims dims;
  bool masked;

  const primal::Attention& value() const { return parsed(text); }
  std::vector<std::string> inputs() const {
    std::vector<std::string> names{"q", "k", "v"};
    if (value().residual) names.emplace_back("skip");
    if (masked) names.insert(names.end(), {"key_mask", "mask"});
    return names;
  }
  std::vector<Tensor> sample(Index B) const {
    const auto [b, H, N, M, D, E] = dims;
    std::vector<Tensor> tensors{torch::randn({B, H, N, D}), torch::randn({B, H, M, D}), torch::randn({B, H, M, E})};
    if (value().residual) tensors.push_back(torch::randn({B, H, N, E}));
    if (masked) tensors.insert(tensors.end(), {sample_key_mask(B, M), torch::rand({B, H, N, M}) > 0.3});
    return tensors;
  }
  AttentionInputs call(const std::vector<Tensor>& tensors) const {
    AttentionInputs inputs;
    std::size_t at = 0;
    for (Tensor* tensor : {&inputs.q, &inputs.k, &inputs.v}) *tensor = tensors[at++];
    if (value().residual) inputs.skip = tensors[at++];
    if (!masked) return inputs;
    inputs.key_mask = tensors[at++];
    inputs.mask = tensors[at];
    return inputs;
  }
  // With log-sum-exp where there is one.
  Wanted wanted() const {
    const bool has_lse = std::holds_alternative<primal::RowSum>(value().normaliser) &&
                         primal::sign_of(value().kernel) != primal::Sign::changing;
    return {true, has_lse, true};
  }
  bool is_allowed() const {
    try {
      attention(value(), call(sample(2)));
      return true;
    } catch (const InvalidArgument&) {
      return false;
    }
  }
};

Case case_of(const Form& form) {
  std::map<std::string, Tensor> parameters;
  for (const primal::ParameterInfo& info : primal::parameters(form.value(), form.dims))
    parameters[info.name] =
        torch::tensor(info.initial).to(torch::kFloat32).view(info.shape) + torch::randn(info.shape) / 5;
  Case one;
  one.name = form.text + (form.masked ? " with masks" : "");
  one.inputs = form.inputs();
  one.sample = [form](Index B) { return form.sample(B); };
  one.function = [form, parameters](const std::vector<Tensor>& tensors) {
    AttentionInputs inputs = form.call(tensors);
    inputs.parameters = parameters;
    if (!form.masked) return std::vector<Tensor>{attention(form.value(), inputs).y};
    const AttentionOutputs out = attention(form.value(), inputs, form.wanted());
    std::vector<Tensor> all{out.y, out.weights, out.column_sums};
    if (out.lse.defined()) all.push_back(out.lse);
    return all;
  };
  if (form.masked) one.outputs = {"y", "weights", "column_sums"};
  if (form.masked && form.wanted().lse) one.outputs.emplace_back("lse");
  return one;
}

}  // namespace

Tensor sample_key_mask(Index B, Index n) {
  const Tensor length = (torch::arange(B) * 5 + n - 1).remainder(n) + 1;
  return torch::arange(n).unsqueeze(0).lt(length.masked_fill(torch::arange(B) == 1, 0).unsqueeze(1));
}

std::vector<Case> attention_cases() {
  std::vector<Case> cases;
  for (const std::string& text : forms())
    for (const bool masked : {false, true})
      for (const Dims& dims : shapes) {
        const Form form{text, dims, masked};
        if (!form.is_allowed()) continue;
        cases.push_back(case_of(form));
        break;
      }
  return cases;
}

}  // namespace saddle::nn::onnx_cases
