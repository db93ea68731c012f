#include "saddle/mechanisms/spiking/module.hpp"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "places.hpp"
#include "saddle/base/error.hpp"
#include "saddle/io/safetensors.hpp"
#include "saddle/mechanisms/spiking/shiftmax.hpp"
#include "saddle/nn/layer_reference.hpp"
#include "saddle/nn/spiking.hpp"
#include "saddle/nn/taps.hpp"

namespace saddle::mechanisms::spiking {
namespace {

using nn::on_tape;
using torch::Tensor;

std::vector<double> numbers(const Tensor& tensor) {
  const Tensor dense = tensor.detach().to(torch::kFloat64).contiguous();
  return {dense.data_ptr<double>(), dense.data_ptr<double>() + dense.numel()};
}

Tensor from(const Shape& shape, const std::vector<double>& data) {
  return torch::tensor(data, torch::kFloat64).view(shape);
}

Tensor from(const saddle::Tensor& tensor) { return from(tensor.shape(), tape::Value(tensor).data()); }

double difference(const Tensor& found, const Tensor& expected) {
  EXPECT_EQ(found.sizes(), expected.sizes());
  return (found - expected).abs().max().item<double>() / std::max(1.0, expected.abs().max().item<double>());
}

Neuron made(Form form, bool detach, Surrogate surrogate = Surrogate::sigmoid) {
  Neuron neuron = form == Form::leaky ? Neuron() : Neuron::ternary();
  neuron.form = form;
  neuron.detach = detach;
  neuron.surrogate = surrogate;
  return neuron;
}

std::vector<Neuron> neurons() {
  std::vector<Neuron> list;
  for (const bool detach : {true, false}) {
    for (const Form form : {Form::leaky, Form::binary, Form::ternary}) list.push_back(made(form, detach));
    list.push_back(made(Form::ternary, detach, Surrogate::clamp));
    Neuron other = made(Form::leaky, detach);
    other.decay_input = false;
    other.tau = 1.7;
    other.reset = std::nullopt;
    list.push_back(other);
    other.reset = 0.3;
    other.decay_input = true;
    list.push_back(other);
    other = made(Form::ternary, detach);
    other.reset = 0.2;
    other.threshold = 0.6;
    list.push_back(other);
  }
  return list;
}

TEST(SpikingFire, FollowsTheReferenceForwardAndBack) {
  torch::manual_seed(1);
  for (const Neuron& neuron : neurons())
    for (const bool same : {false, true}) {
      const Index T = 5;
      // More neurons than one block holds.
      const Tensor x = (1.5 * torch::randn({same ? 1 : T, 3, 701}, torch::kFloat64)).requires_grad_();
      const Tensor s = nn::fire(x, neuron, T), ds = torch::randn_like(s);
      (s * ds).sum().backward();
      const tape::Value given = on_tape(x), input = given + tape::zeros({T, 1, 1});
      const Fired expected = fire(input, neuron);
      EXPECT_EQ(numbers(s), expected.s.data());
      tape::backward({{expected.s, numbers(ds)}});
      EXPECT_LT(difference(x.grad(), from(given.shape(), given.gradient())), 1e-12);
      const torch::NoGradGuard guard;
      EXPECT_TRUE(nn::fire(x, neuron, T).equal(s));
    }
}

TEST(SpikingFire, TakesFarPotentials) {
  const Tensor x = torch::tensor({-1e30, -1e3, 1e3, 1e30}, torch::kFloat32).view({1, 4}).requires_grad_();
  for (const Form form : {Form::leaky, Form::binary, Form::ternary}) {
    const Tensor s = nn::fire(x, made(form, false), 3);
    s.sum().backward();
    EXPECT_TRUE(s.isfinite().all().item<bool>() && x.grad().isfinite().all().item<bool>());
  }
}

TEST(SpikingFire, RefusesOtherInput) {
  EXPECT_THROW(nn::fire(torch::zeros({3, 2}), Neuron(), 4), InvalidArgument);
  EXPECT_THROW(nn::fire(torch::zeros({3, 2}, torch::kInt64), Neuron(), 3), InvalidArgument);
  EXPECT_THROW(nn::fire(torch::zeros({}), Neuron(), 1), InvalidArgument);
  Neuron clamped;
  clamped.surrogate = Surrogate::clamp;
  EXPECT_THROW(nn::fire(torch::zeros({3, 2}), clamped, 3), InvalidArgument);
}

// Spikes that are whole, values that are not; 1100 keys make more than one block of rows.
TEST(SpikingShiftmax, FollowsTheReferenceForwardAndBack) {
  for (const auto& [B, H, N, masked] :
       {std::tuple<Index, Index, Index, bool>{2, 3, 9, false}, {2, 3, 9, true}, {1, 1, 1100, false}}) {
    torch::manual_seed(2);
    const Index T = 2, G = T * B * H, D = 5;
    const Tensor q = torch::randint(-1, 2, {G, N, D}).to(torch::kFloat64).requires_grad_();
    const Tensor k = torch::randint(-1, 2, {G, N, D}).to(torch::kFloat64).requires_grad_();
    const Tensor v = torch::randn({G, N, 4}, torch::kFloat64).requires_grad_();
    Tensor mask;
    if (masked) mask = torch::arange(N).view({1, N}).lt(torch::tensor({3, 0}).view({2, 1}));
    const Tensor y = nn::shiftmax_product(q, k, v, mask, H), dy = torch::randn_like(y);
    (y * dy).sum().backward();

    const tape::Value tq = on_tape(q), tk = on_tape(k), tv = on_tape(v);
    tape::Value score = tape::matmul(tq, tape::transpose(tk, 1, 2));
    if (masked) {
      const Tensor all = mask.view({1, B, 1, 1, N}).expand({T, B, H, 1, N}).reshape({G, 1, N});
      score = tape::where(on_tape(all), score, -std::numeric_limits<double>::infinity());
    }
    const tape::Value weight = shiftmax(score).weight, expected = tape::matmul(weight, tv);
    EXPECT_LT(difference(y, from(expected.shape(), expected.data())), 1e-13);
    if (N > 100) continue;
    EXPECT_EQ(numbers(nn::shiftmax_weights(q.detach(), k.detach(), mask, H)), weight.data());
    tape::backward({{expected, numbers(dy)}});
    EXPECT_LT(difference(q.grad(), from(tq.shape(), tq.gradient())), 1e-12);
    EXPECT_LT(difference(k.grad(), from(tk.shape(), tk.gradient())), 1e-12);
    EXPECT_LT(difference(v.grad(), from(tv.shape(), tv.gradient())), 1e-12);
  }
}

TEST(SpikingShiftmax, GradientsDoNotDependOnBlocks) {
  torch::manual_seed(3);
  const Index N = 1100;
  const auto spikes = [&] { return torch::randint(-1, 2, {1, N, 4}).to(torch::kFloat64).requires_grad_(); };
  const Tensor q = spikes(), k = spikes(), v = torch::randn({1, N, 4}, torch::kFloat64).requires_grad_();
  const Tensor y = nn::shiftmax_product(q, k, v, {}, 1), dy = torch::randn_like(y);
  const auto found = torch::autograd::grad({y}, {q, k, v}, {dy});
  const Tensor w = nn::shiftmax_weights(q.detach(), k.detach(), {}, 1);
  const Tensor ds = std::log(2.0) * w * torch::matmul(dy, v.detach().transpose(1, 2));
  EXPECT_LT(difference(found[0], torch::matmul(ds, k.detach())), 1e-12);
  EXPECT_LT(difference(found[1], torch::matmul(ds.transpose(1, 2), q.detach())), 1e-12);
  EXPECT_LT(difference(found[2], torch::matmul(w.transpose(1, 2), dy)), 1e-12);
}

TEST(SpikingShiftmax, WeightsArePowersOfTwoInFloat) {
  torch::manual_seed(4);
  const Tensor q = torch::randint(-1, 2, {4, 17, 8}).to(torch::kFloat32), k = torch::randint(-1, 2, {4, 17, 8}).to(q);
  const Tensor w = nn::shiftmax_weights(q, k, {}, 1), sum = w.sum(2);
  EXPECT_TRUE(w.log2().frac().eq(0).all().item<bool>());
  EXPECT_TRUE((sum.gt(0.5) & sum.le(1)).all().item<bool>());
}

// A module that has the weights of a recorded case, and its input as tokens over time.
struct Recorded {
  TensorFile golden;
  std::shared_ptr<SpikingAttention> module;
  bool image = false;

  Tensor tokens(const std::string& name) const {
    const Tensor x = from(golden.tensors.at(name));
    return image ? x.flatten(3).transpose(2, 3) : x;
  }
};

Recorded recorded(const std::string& file) {
  Recorded r;
  r.golden = io::read_safetensors(std::string(SADDLE_SOURCE_DIR "/tests/golden/") + file);
  const auto& about = r.golden.metadata;
  r.image = about.contains("layout") && about.at("layout") == "TBCHW";
  std::string variant = about.contains("variant") ? about.at("variant") : "bsa";
  std::replace(variant.begin(), variant.end(), '-', '_');
  LayerPlace place;
  place.H = std::stoll(about.at("heads"));
  place.X = r.golden.tensors.at("param.q.weight").shape()[0];
  const LayerPtr layer = find_layer("spiking(variant=" + variant + ")");
  r.module = std::dynamic_pointer_cast<SpikingAttention>(nn::make_layer(*layer, place));
  r.module->to(torch::kFloat64);
  r.module->train(about.at("train") == "true");
  const torch::NoGradGuard guard;
  for (auto& item : r.module->named_parameters())
    item.value().copy_(from(r.golden.tensors.at("param." + item.key())).view(item.value().sizes()));
  for (auto& item : r.module->named_buffers())
    if (const auto found = r.golden.tensors.find("in." + item.key()); found != r.golden.tensors.end())
      item.value().copy_(from(found->second));
  return r;
}

TEST(SpikingAttention, GivesWhatOfficialCodeGave) {
  for (const char* file : {"ssa/spikformer_train", "ssa/spikformer_eval", "ssa/spikingformer_train",
                           "ssa/qkformer_token", "ssa/sdsa_eval"}) {
    SCOPED_TRACE(file);
    const Recorded r = recorded(std::string(file) + ".safetensors");
    const Tensor x = r.tokens("in.x").requires_grad_(), cotangent = r.tokens("cot.y");
    Tensor y = r.module->over_time(x);
    if (std::string(file) == "ssa/sdsa_eval") y = y + x;
    EXPECT_LT(difference(y, r.tokens("out.y")), 1e-10);
    (y * cotangent).sum().backward();
    EXPECT_LT(difference(x.grad(), r.tokens("grad.x")), 1e-10);
    for (const auto& item : r.module->named_parameters()) {
      const Tensor expected = from(r.golden.tensors.at("grad." + item.key())).view(item.value().sizes());
      EXPECT_LT(difference(item.value().grad(), expected), 1e-10) << item.key();
    }
  }
}

TEST(SpikingAttention, GivesWhatTheEquationsOfBsaGive) {
  for (const char* file : {"bsa/bsa_train", "bsa/bsa_eval"}) {
    SCOPED_TRACE(file);
    const Recorded r = recorded(std::string(file) + ".safetensors");
    nn::Taps taps(true);
    const Tensor y = r.module->over_time(r.tokens("in.x"));
    EXPECT_LT(difference(y, r.tokens("out.y")), 1e-10);
    ASSERT_EQ(taps.layers.size(), 1u);
    const Tensor weight = from(r.golden.tensors.at("out.weight")).mean(0);
    EXPECT_LT(difference(taps.layers[0].weights, weight), 1e-14);
  }
}

std::vector<std::string> forms() {
  return {"spiking",
          "spiking(product=bmp,constraint=softmax)",
          "spiking(constraint=none)",
          "spiking(variant=spikformer)",
          "spiking(variant=spikingformer)",
          "spiking(variant=qkformer_ssa)",
          "spiking(variant=qkformer_token)",
          "spiking(variant=sdsa)"};
}

std::shared_ptr<SpikingAttention> small(const std::string& text) {
  LayerPlace place;
  place.X = 12;
  place.H = 3;
  return std::dynamic_pointer_cast<SpikingAttention>(nn::make_layer(*find_layer(text), place));
}

TEST(SpikingAttention, TrainsByTheStatisticsOfTheBatch) {
  for (const std::string& text : forms()) {
    SCOPED_TRACE(text);
    torch::manual_seed(5);
    const auto module = small(text);
    module->to(torch::kFloat64);
    module->train();
    const Tensor x = torch::randn({3, 11, 12}, torch::kFloat64).requires_grad_();
    const Tensor y = module->forward(x, {}), dy = torch::randn_like(y);
    (y * dy).sum().backward();
    LayerPlace place;
    place.X = 12;
    place.H = 3;
    LayerInputs inputs = nn::reference_inputs(*module, place, x);
    std::erase_if(inputs.weights,
                  [](const auto& weight) { return weight.first.find("running_") != std::string::npos; });
    const LayerOutputs expected = find_layer(text)->reference(inputs);
    EXPECT_LT(difference(y, from(expected.at("y").shape(), expected.at("y").data())), 1e-9);
    tape::backward({{expected.at("y"), numbers(dy)}});
    EXPECT_LT(difference(x.grad(), from(inputs.x.shape(), inputs.x.gradient())), 1e-8);
    for (const auto& item : module->named_parameters()) {
      const tape::Value& value = inputs.weights.at(item.key());
      EXPECT_LT(difference(item.value().grad(), from(value.shape(), value.gradient())), 1e-8) << item.key();
    }
    for (const auto& item : module->named_buffers())
      if (item.key() == "q_bn.running_mean") {
        EXPECT_GT(item.value().abs().max().item<double>(), 1e-4);
      }
  }
}

TEST(SpikingAttention, RunsUnderAutocast) {
  for (const std::string& text : forms()) {
    SCOPED_TRACE(text);
    torch::manual_seed(6);
    const auto module = small(text);
    const Tensor x = torch::randn({2, 300, 12}).requires_grad_();
    at::autocast::set_cpu_enabled(true);
    const Tensor y = module->forward(x.to(torch::kBFloat16), {});
    y.sum().backward();
    at::autocast::clear_cache();
    at::autocast::set_cpu_enabled(false);
    EXPECT_TRUE(y.isfinite().all().item<bool>());
    EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
  }
}

// The order of the products is chosen by size; both must give the same.
TEST(SpikingAttention, GivesTheSameForLongAndShortSequences) {
  torch::manual_seed(7);
  const auto module = small("spiking(variant=spikformer)");
  module->to(torch::kFloat64);
  module->eval();
  const torch::NoGradGuard guard;
  // Tokens behind the third do not exist: 3 tokens alone, where D = 4 is larger, must give what they give among 9.
  const Tensor x = torch::randn({2, 9, 12}, torch::kFloat64);
  const Tensor mask = torch::arange(9).view({1, 9}).lt(3).repeat({2, 1});
  const Tensor y = module->forward(x, mask);
  EXPECT_LT(difference(y.narrow(1, 0, 3), module->forward(x.narrow(1, 0, 3), {})), 1e-14);
  EXPECT_EQ(y.narrow(1, 3, 6).abs().max().item<double>(), 0);
}

TEST(SpikingAttention, NamesWeightsAsRecordedCases) {
  const auto names = [](const std::string& text) { return small(text)->named_parameters().keys(); };
  EXPECT_EQ(names("spiking(variant=qkformer_token)"),
            (std::vector<std::string>{"q.weight", "q_bn.weight", "q_bn.bias", "k.weight", "k_bn.weight", "k_bn.bias",
                                      "proj.weight", "proj.bias", "proj_bn.weight", "proj_bn.bias"}));
  EXPECT_EQ(names("spiking(variant=spikformer)").size(), 16u);
}

}  // namespace
}  // namespace saddle::mechanisms::spiking
