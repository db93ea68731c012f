// Every mechanism of the layer level: its module against its reference, as its cases.toml says.
#include "saddle/nn/layer.hpp"

#include <gtest/gtest.h>

#include <toml++/toml.h>

#include "saddle/mechanisms/registry.hpp"
#include "saddle/nn/blocks/self_attention.hpp"
#include "saddle/nn/layer_reference.hpp"
#include "saddle/nn/plain.hpp"
#include "saddle/nn/taps.hpp"

namespace saddle::nn {
namespace {

using mechanisms::LayerPlace;
using torch::Tensor;

struct LayerCase {
  std::string text;
  LayerPlace place;
  Index B = 1, N = 1;
  bool masked = false;
};

std::vector<const mechanisms::Mechanism*> layer_mechanisms() {
  auto list = mechanisms::all();
  std::erase_if(list, [](const auto* mechanism) { return !mechanism->layer; });
  return list;
}

std::vector<LayerCase> cases_of(const mechanisms::Mechanism& mechanism) {
  const toml::table document = toml::parse(mechanisms::text_of(mechanism).cases);
  const auto layer = document["layer"];
  std::vector<LayerCase> cases;
  for (const auto& text : *document["attentions"].as_array())
    for (const auto& node : *layer["shapes"].as_array()) {
      const auto& shape = *node.as_array();
      const auto extent = [&](std::size_t i) { return shape[i].value<Index>().value(); };
      LayerCase c;
      c.text = text.value<std::string>().value();
      c.B = extent(0);
      c.N = extent(1);
      c.place.N = c.N;
      c.place.X = extent(2);
      c.place.H = extent(3);
      if (shape.size() > 4) {  // rows, columns, prefix
        c.place.grid = {extent(4), extent(5)};
        c.place.prefix = extent(6);
      }
      cases.push_back(c);
      c.masked = layer["masked"].value_or(false) && c.N > 1;
      ++c.B;  // for the sequence without tokens
      if (c.masked) cases.push_back(c);
    }
  return cases;
}

std::vector<double> numbers(const Tensor& tensor) {
  const Tensor dense = tensor.detach().to(torch::kFloat64).contiguous();
  return {dense.data_ptr<double>(), dense.data_ptr<double>() + dense.numel()};
}

void expect_near(const std::vector<double>& computed, const std::vector<double>& expected, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(computed.size(), expected.size()) << what;
  double scale = 1, off = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    scale = std::max(scale, std::fabs(expected[i]));
    const double difference = std::fabs(computed[i] - expected[i]);
    off = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(off, difference);
  }
  EXPECT_LE(off, tolerance * scale) << what;
}

// Sequences have padding at their end and at least one token, the last one has none.
Tensor padded_mask(Index B, Index N) {
  Tensor lengths = (torch::arange(B).view({B, 1}).neg() + (N - 1)).clamp_min(1);
  lengths[B - 1] = 0;
  return torch::arange(N).view({1, N}).lt(lengths);
}

class LayerOfMechanism : public ::testing::TestWithParam<const mechanisms::Mechanism*> {
 protected:
  static constexpr double tolerance = 1e-9, gradient_tolerance = 1e-8;
};

// The module in double, with parameters that are all non-zero, and what it computes.
struct Computed {
  AttentionLayerPtr module;
  Tensor x, mask;
};

Computed computed(const LayerCase& c) {
  torch::manual_seed(7);
  Computed r;
  r.module = make_layer(*mechanisms::find_layer(c.text), c.place);
  r.module->to(torch::kFloat64);
  r.module->eval();
  const torch::NoGradGuard guard;
  for (Tensor& parameter : r.module->parameters()) parameter.add_(torch::randn_like(parameter), 0.1);
  r.x = torch::randn({c.B, c.N, c.place.X}, torch::kFloat64);
  if (c.masked) r.mask = padded_mask(c.B, c.N);
  return r;
}

TEST_P(LayerOfMechanism, FollowsItsReference) {
  for (const LayerCase& c : cases_of(*GetParam())) {
    SCOPED_TRACE(c.text + (c.masked ? ", masked" : "") + ", N = " + std::to_string(c.N));
    Computed r = computed(c);
    r.x.requires_grad_();
    ExtraLosses losses;
    const Tensor y = r.module->forward(r.x, r.mask), loss = losses.mean();
    ASSERT_EQ(y.sizes(), r.x.sizes());
    const Tensor cotangent = torch::randn_like(y);
    Tensor total = (y * cotangent).sum();
    if (loss.defined()) total = total + loss;
    total.backward();

    const mechanisms::LayerInputs inputs = reference_inputs(*r.module, c.place, r.x, r.mask);
    const auto outputs = mechanisms::find_layer(c.text)->reference(inputs);
    expect_near(numbers(y), outputs.at("y").data(), tolerance, "y");
    std::vector<tape::Cotangent> roots{{outputs.at("y"), numbers(cotangent)}};
    ASSERT_EQ(loss.defined(), outputs.contains("loss"));
    if (loss.defined()) {
      expect_near(numbers(loss), outputs.at("loss").data(), tolerance, "loss");
      roots.push_back({outputs.at("loss"), {1.0}});
    }
    tape::backward(roots);
    expect_near(numbers(r.x.grad()), inputs.x.gradient(), gradient_tolerance, "dx");
    for (const auto& item : r.module->named_parameters()) {
      const Tensor gradient = item.value().grad();
      expect_near(gradient.defined() ? numbers(gradient) : std::vector<double>(item.value().numel(), 0.0),
                  inputs.weights.at(item.key()).gradient(), gradient_tolerance, item.key());
    }
  }
}

// Numbers of a float run are those of the double run, rounded.
TEST_P(LayerOfMechanism, RunsInFloat) {
  for (const LayerCase& c : cases_of(*GetParam())) {
    SCOPED_TRACE(c.text);
    Computed r = computed(c);
    const Tensor expected = r.module->forward(r.x, r.mask);
    r.module->to(torch::kFloat32);
    const Tensor y = r.module->forward(r.x.to(torch::kFloat32), r.mask);
    EXPECT_EQ(y.scalar_type(), torch::kFloat32);
    expect_near(numbers(y), numbers(expected), 1e-4, "y");
  }
}

// For exporters and other devices: without any kernel, the same numbers and gradients.
TEST_P(LayerOfMechanism, IsMadeOfPlainOperationsToo) {
  for (const LayerCase& c : cases_of(*GetParam())) {
    SCOPED_TRACE(c.text + (c.masked ? ", masked" : ""));
    Computed r = computed(c);
    r.x.requires_grad_();
    const Tensor cotangent = torch::randn_like(r.x);
    std::vector<Tensor> inputs = r.module->parameters();
    inputs.push_back(r.x);
    const auto run = [&] {
      ExtraLosses losses;
      const Tensor y = r.module->forward(r.x, r.mask), loss = losses.mean();
      Tensor total = (y * cotangent).sum();
      if (loss.defined()) total = total + loss;
      auto gradients = torch::autograd::grad({total}, inputs, {}, false, false, true);
      gradients.insert(gradients.begin(), y);
      return gradients;
    };
    const auto expected = run();
    const PlainOperations plain;
    const auto found = run();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(found[i].defined(), expected[i].defined()) << i;
      if (expected[i].defined()) expect_near(numbers(found[i]), numbers(expected[i]), 1e-9, std::to_string(i));
    }
  }
}

// A module in its place: copies compute the same, taps see the heads, a residual is added.
TEST_P(LayerOfMechanism, StandsInSelfAttention) {
  const LayerCase c = cases_of(*GetParam()).front();
  Tokens tokens;
  tokens.most = c.N;
  tokens.grid = c.place.grid;
  tokens.prefix = c.place.prefix;
  SelfAttention attention(SelfAttentionOptions(c.place.X, c.place.H).attention(c.text).tokens(tokens));
  attention->eval();
  EXPECT_TRUE(attention->qkv.is_empty());
  const torch::NoGradGuard guard;
  const Tensor x = torch::randn({c.B, c.N, c.place.X});
  Taps taps(false);
  const Tensor y = attention(x);
  ASSERT_EQ(taps.layers.size(), 1u);
  EXPECT_EQ(taps.layers[0].heads.size(0), c.B);
  const auto copy = std::dynamic_pointer_cast<SelfAttentionImpl>(attention->clone());
  copy->eval();
  EXPECT_TRUE(copy->forward(x).equal(y));
  LinearOptions out;
  out.residual = x;
  EXPECT_TRUE(attention->forward(x, {}, out).allclose(y + x));
  EXPECT_GT(attention->multiply_adds(c.N), 0);
}

INSTANTIATE_TEST_SUITE_P(All, LayerOfMechanism, ::testing::ValuesIn(layer_mechanisms()),
                         [](const auto& each) { return each.param->name; });

TEST(Layer, SaysWhatItCannotBe) {
  EXPECT_EQ(mechanisms::find_layer("softmax+bn"), nullptr);
  EXPECT_THROW(mechanisms::find_layer("cat+causal"), InvalidArgument);
  EXPECT_THROW(mechanisms::find_layer("cat(variant=none)"), InvalidArgument);
  EXPECT_THROW(mechanisms::parse("cat"), InvalidArgument);
  EXPECT_THROW(SelfAttention(SelfAttentionOptions(8, 3).attention("cat")), InvalidArgument);
  EXPECT_THROW(SelfAttention(SelfAttentionOptions(8, 2).attention("cat(variant=q)")), InvalidArgument);
  LayerPlace place;
  const Tensor x = torch::zeros({1, 4, place.X});
  EXPECT_THROW(make_layer(*mechanisms::find_layer("cat"), place)->across(x, x), NotSupported);
}

}  // namespace
}  // namespace saddle::nn
