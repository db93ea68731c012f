#include "saddle/nn/attention.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/registry.hpp"
#include "saddle/nn/composed.hpp"
#include "saddle/nn/written.hpp"

namespace saddle::nn {
namespace {

using torch::autograd::variable_list;

// Random inputs with every parameter of the value, all wanting gradients.
AttentionInputs inputs_for(const std::string& text, Index B, Index H, Index N, Index D, torch::ScalarType type) {
  torch::manual_seed(3);
  const auto options = torch::TensorOptions(type);
  AttentionInputs inputs;
  inputs.q = torch::randn({B, H, N, D}, options).requires_grad_();
  inputs.k = torch::randn({B, H, N, D}, options).requires_grad_();
  inputs.v = torch::randn({B, H, N, D}, options).requires_grad_();
  const primal::Attention& value = parsed(text);
  if (value.residual) inputs.skip = torch::randn({B, H, N, D}, options).requires_grad_();
  for (const auto& info : primal::parameters(value, dims_of(inputs)))
    inputs.parameters[info.name] = (torch::tensor(info.initial, options).view(info.shape) + 0.1).requires_grad_();
  return inputs;
}

variable_list tensors_of(const AttentionInputs& inputs) {
  variable_list list{inputs.q, inputs.k, inputs.v};
  if (inputs.skip.defined()) list.push_back(inputs.skip);
  for (const auto& [name, tensor] : inputs.parameters) list.push_back(tensor);
  return list;
}

double difference(const Tensor& a, const Tensor& b) {
  return ((a - b).abs().max() / b.abs().max().clamp_min(1)).item<double>();
}

class EveryMechanism : public testing::TestWithParam<std::string> {};

// The kernels, which know nothing of torch, against plain torch operations, which know nothing of the kernels.
TEST_P(EveryMechanism, KernelsAgreeWithTheComposedPath) {
  for (const char* more : {"", "+bias", "+residual"}) {
    const std::string text = GetParam() + more;
    const AttentionInputs inputs = inputs_for(text, 2, 4, 12, 6, torch::kFloat64);
    const Wanted wanted{true, false, true};
    const AttentionOutputs ours = attention(parsed(text), inputs, wanted);
    const AttentionOutputs theirs = composed_attention(parsed(text), inputs, wanted);
    EXPECT_LT(difference(ours.y, theirs.y), 1e-11) << text;
    EXPECT_LT(difference(ours.weights, theirs.weights), 1e-11) << text;
    EXPECT_LT(difference(ours.column_sums, theirs.column_sums), 1e-11) << text;
    const Tensor dy = torch::randn_like(ours.y);
    const variable_list tensors = tensors_of(inputs);
    const auto a = torch::autograd::grad({ours.y}, tensors, {dy}), b = torch::autograd::grad({theirs.y}, tensors, {dy});
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LT(difference(a[i], b[i]), 1e-10) << text << " gradient " << i;
  }
}

// In float and bfloat16 results must be what they are in double, up to rounding.
TEST_P(EveryMechanism, RunsInEveryType) {
  const AttentionInputs exact = inputs_for(GetParam(), 1, 4, 12, 8, torch::kFloat64);
  const Tensor y = attention(parsed(GetParam()), exact).y;
  for (const auto& [type, tolerance] : {std::pair{torch::kFloat32, 2e-5}, {torch::kBFloat16, 5e-2}}) {
    AttentionInputs inputs = exact;
    for (Tensor* tensor : {&inputs.q, &inputs.k, &inputs.v}) *tensor = tensor->detach().to(type).requires_grad_();
    for (auto& [name, tensor] : inputs.parameters) tensor = tensor.detach().to(type).requires_grad_();
    const Tensor own = attention(parsed(GetParam()), inputs).y;
    EXPECT_EQ(own.scalar_type(), type);
    EXPECT_LT(difference(own.to(torch::kFloat64), y), tolerance);
    const auto gradients = torch::autograd::grad({own.sum()}, tensors_of(inputs));
    for (const Tensor& gradient : gradients) EXPECT_EQ(gradient.scalar_type(), type);
  }
}

std::vector<std::string> mechanism_names() {
  std::vector<std::string> names;
  for (const auto* mechanism : mechanisms::all_declared())
    if (mechanism->level == mechanisms::Level::kernel) names.push_back(mechanism->name);
  for (const char* text :
       {"softmax+causal", "attention_bn(learn=head,scale=std)", "rbf(gamma=0.5)+window(3)", "poly(degree=2)+one"})
    names.emplace_back(text);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryMechanism, testing::ValuesIn(mechanism_names()), [](const auto& one) {
  std::string name = one.param;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
});

TEST(Attention, ReadsOneProjectionInPlace) {
  torch::manual_seed(1);
  const Tensor qkv = torch::randn({2, 9, 2 * 12 + 8}, torch::kFloat64).requires_grad_();
  const Tensor y = attention_qkv(parsed("softmax+bn"), qkv, 4, {}, 2);
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{2, 9, 8}));
  EXPECT_TRUE(y.is_contiguous());
  AttentionInputs inputs;
  const auto part = [&](Index first, Index size) {
    return qkv.narrow(2, first, size).unflatten(2, {4, -1}).transpose(1, 2);
  };
  inputs.q = part(0, 12);
  inputs.k = part(12, 12);
  inputs.v = part(24, 8);
  const Tensor expected = composed_attention(parsed("softmax+bn"), inputs).y.transpose(1, 2).flatten(2);
  EXPECT_LT(difference(y, expected), 1e-12);
  const Tensor dy = torch::randn_like(y);
  EXPECT_LT(difference(torch::autograd::grad({y}, {qkv}, {dy})[0], torch::autograd::grad({expected}, {qkv}, {dy})[0]),
            1e-11);
}

TEST(Attention, GradientsCanBeDifferentiatedAgain) {
  const AttentionInputs inputs = inputs_for("softmax+bn(learn=shared)", 1, 2, 5, 3, torch::kFloat64);
  const variable_list tensors = tensors_of(inputs);
  const auto second = [&](const Tensor& y) {
    const auto first = torch::autograd::grad({y.pow(2).sum()}, tensors, {}, true, true);
    Tensor sum = torch::zeros({}, torch::kFloat64);
    for (const Tensor& gradient : first) sum = sum + gradient.pow(2).sum();
    return torch::autograd::grad({sum}, tensors);
  };
  const auto ours = second(attention(parsed("softmax+bn(learn=shared)"), inputs).y);
  const auto theirs = second(composed_attention(parsed("softmax+bn(learn=shared)"), inputs).y);
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_LT(difference(ours[i], theirs[i]), 1e-10) << i;
}

TEST(Attention, DropsTheSameWeightsInBothPassesAndBothPaths) {
  AttentionInputs inputs = inputs_for("softmax", 2, 2, 20, 4, torch::kFloat64);
  inputs.dropout = {0.3, 17, 2};
  const Tensor ours = attention(parsed("softmax"), inputs).y, theirs = composed_attention(parsed("softmax"), inputs).y;
  EXPECT_LT(difference(ours, theirs), 1e-12);
  const auto a = torch::autograd::grad({ours.sum()}, tensors_of(inputs));
  const auto b = torch::autograd::grad({theirs.sum()}, tensors_of(inputs));
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LT(difference(a[i], b[i]), 1e-11);
  inputs.dropout.offset = 3;
  EXPECT_GT(difference(attention(parsed("softmax"), inputs).y, ours), 1e-3);
}

TEST(Attention, MasksBroadcast) {
  AttentionInputs inputs = inputs_for("softmax", 2, 3, 7, 4, torch::kFloat64);
  inputs.mask = torch::rand({7, 7}).gt(0.5);
  inputs.mask[2].fill_(false);
  inputs.key_mask = torch::ones({2, 7}, torch::kBool);
  inputs.key_mask[1].narrow(0, 4, 3).fill_(false);
  const Tensor ours = attention(parsed("softmax"), inputs).y, theirs = composed_attention(parsed("softmax"), inputs).y;
  EXPECT_LT(difference(ours, theirs), 1e-12);
  EXPECT_EQ(ours.select(2, 2).abs().max().item<double>(), 0);
}

TEST(Attention, GuessesShapesOnTheMetaDevice) {
  AttentionInputs inputs = inputs_for("attention_sh", 2, 4, 8, 4, torch::kFloat32);
  for (Tensor* tensor : {&inputs.q, &inputs.k, &inputs.v}) *tensor = tensor->detach().to(torch::kMeta);
  const AttentionOutputs out = attention(parsed("attention_sh"), inputs, {true, true, true});
  EXPECT_EQ(out.y.sizes(), (std::vector<int64_t>{2, 4, 8, 4}));
  EXPECT_EQ(out.weights.sizes(), (std::vector<int64_t>{2, 4, 8, 8}));
  EXPECT_TRUE(out.y.is_meta());
}

TEST(Attention, SaysWhatDoesNotFit) {
  AttentionInputs inputs = inputs_for("softmax", 1, 2, 5, 4, torch::kFloat32);
  const auto message = [&] {
    try {
      attention(parsed("softmax"), inputs);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  inputs.mask = torch::ones({4, 4}, torch::kBool);
  EXPECT_NE(message().find("mask has shape (4,4), which does not broadcast to (1,2,5,5)"), std::string::npos)
      << message();
  inputs.mask = torch::ones({5, 5});
  EXPECT_NE(message().find("must be bool"), std::string::npos) << message();
  inputs.mask = Tensor();
  inputs.q = torch::randn({5, 4});
  EXPECT_NE(message().find("q has 2 dimensions"), std::string::npos) << message();
  inputs.q = torch::randn({1, 2, 5, 4}).to(torch::kHalf);
  EXPECT_NE(message().find("Half"), std::string::npos) << message();
}

TEST(Attention, AGraphIsFreedOnce) {
  const AttentionInputs inputs = inputs_for("softmax", 1, 1, 3, 2, torch::kFloat32);
  const Tensor y = attention(parsed("softmax"), inputs).y.sum();
  y.backward({}, true);
  y.backward();
  EXPECT_THROW(y.backward(), std::exception);
}

}  // namespace
}  // namespace saddle::nn
