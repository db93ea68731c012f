#include "saddle/nn/blocks/encoder_block.hpp"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "saddle/base/error.hpp"
#include "saddle/nn/blocks/encoder.hpp"
#include "saddle/nn/plain.hpp"

namespace saddle::nn {
namespace {

using torch::kDouble;
using torch::kFloat;

double error(const Tensor& found, const Tensor& expected) {
  return (found.to(kDouble) - expected.to(kDouble)).abs().max().item<double>() /
         std::max(1e-30, expected.to(kDouble).abs().max().item<double>());
}

// The block in the words of the literature, with the weights of `block`.
Tensor written_out(EncoderBlockImpl& block, const Tensor& x, const Tensor& key_mask) {
  const Index B = x.size(0), N = x.size(1), X = x.size(2), H = block.options.heads();
  const auto norm = [&](Norm& n, const Tensor& t) {
    if (n->options.kind() == "layer") return at::layer_norm(t, {X}, n->weight, n->bias, n->options.eps());
    const Tensor rows = t.reshape({-1, X});
    const Tensor mean = rows.mean(0), var = rows.var(0, false);
    return ((t - mean) / (var + n->options.eps()).sqrt()) * n->weight + n->bias;
  };
  const auto attend = [&](const Tensor& t) {
    const auto parts = at::linear(t, block.attn->qkv->weight, block.attn->qkv->bias)
                           .view({B, N, 3, H, X / H})
                           .permute({2, 0, 3, 1, 4})
                           .unbind(0);
    Tensor scores = at::matmul(parts[0], parts[1].transpose(2, 3)) / std::sqrt(static_cast<double>(X / H));
    if (key_mask.defined())
      scores = scores.masked_fill(key_mask.logical_not().view({B, 1, 1, N}), -std::numeric_limits<double>::infinity());
    const Tensor y = at::matmul(scores.softmax(-1), parts[2]).transpose(1, 2).reshape({B, N, X});
    return at::linear(y, block.attn->proj->weight, block.attn->proj->bias);
  };
  const auto network = [&](const Tensor& t) {
    const Tensor hidden = at::linear(t, block.mlp->fc1->weight, block.mlp->fc1->bias);
    return at::linear(block.options.activation() == "gelu" ? at::gelu(hidden) : at::relu(hidden),
                      block.mlp->fc2->weight, block.mlp->fc2->bias);
  };
  if (block.options.norm_first()) {
    const Tensor y = x + attend(norm(block.norm1, x));
    return y + network(norm(block.norm2, y));
  }
  const Tensor y = norm(block.norm1, x + attend(x));
  return norm(block.norm2, y + network(y));
}

TEST(EncoderBlock, IsWhatTheLiteratureWrites) {
  for (const char* norm : {"layer", "batch"})
    for (const bool first : {true, false})
      for (const bool masked : {true, false})
        for (const char* activation : {"gelu", "relu"})
          for (const auto type : {kFloat, kDouble}) {
            torch::manual_seed(5);
            EncoderBlock block(
                EncoderBlockOptions(24, 3).norm(norm).norm_first(first).hidden(40).activation(activation));
            block->to(type);
            const Tensor x = torch::randn({2, 11, 24}, type).requires_grad_(), dy = torch::randn({2, 11, 24}, type);
            Tensor mask;
            if (masked) {
              mask = torch::ones({2, 11}, torch::kBool);
              mask[1].narrow(0, 6, 5).fill_(false);
            }
            std::vector<Tensor> leaves = block->parameters();
            leaves.push_back(x);
            const Tensor found = block(x, mask), expected = written_out(*block, x, mask);
            const double tolerance = type == kFloat ? 5e-6 : 1e-12;
            EXPECT_LT(error(found, expected), tolerance);
            const auto ours = torch::autograd::grad({found}, leaves, {dy});
            const auto theirs = torch::autograd::grad({expected}, leaves, {dy});
            double largest = 0;
            for (const Tensor& g : theirs) largest = std::max(largest, g.abs().max().item<double>());
            for (std::size_t i = 0; i < leaves.size(); ++i)
              EXPECT_LT((ours[i] - theirs[i]).abs().max().item<double>(), 2 * tolerance * largest) << i;
          }
}

TEST(EncoderBlock, KeepsItsStreamInFloatUnderAutocast) {
  for (const bool first : {true, false}) {
    torch::manual_seed(6);
    EncoderBlock block(EncoderBlockOptions(64, 4).norm_first(first));
    const Tensor x = torch::randn({2, 40, 64});
    const Tensor exact = block(x);
    at::autocast::set_cpu_enabled(true);
    const Tensor found = block(x);
    at::autocast::set_cpu_enabled(false);
    at::autocast::clear_cache();
    EXPECT_EQ(found.scalar_type(), kFloat);
    EXPECT_LT(error(found, exact), 2e-2);
    EXPECT_GT(error(found, exact), 1e-6);
  }
}

TEST(EncoderBlock, RunsAsPlainOperations) {
  torch::manual_seed(7);
  EncoderBlock block(EncoderBlockOptions(32, 2).attention("softmax+bn(beta=0.5)"));
  const Tensor x = torch::randn({2, 9, 32});
  const Tensor fast = block(x);
  const PlainOperations guard;
  EXPECT_LT(error(block(x), fast), 5e-6);
}

TEST(EncoderBlock, DropsWhileTrainingOnly) {
  torch::manual_seed(8);
  EncoderBlock block(EncoderBlockOptions(32, 2).dropout(0.2).attention_dropout(0.1).drop_path(0.3));
  const Tensor x = torch::randn({4, 9, 32});
  EXPECT_GT(error(block(x), block(x)), 1e-2);
  block->eval();
  EXPECT_EQ(error(block(x), block(x)), 0);
}

TEST(SelfAttention, DropsNoWeightsWhereAPrimalFormNeedsNone) {
  torch::manual_seed(10);
  const Tensor x = torch::randn({2, 9, 32});
  const auto moves = [&](const char* attention) {
    SelfAttention layer(SelfAttentionOptions(32, 2).attention(attention).dropout(0.5));
    return error(layer(x), layer(x)) > 0;
  };
  for (const char* finite : {"linear(elu1)", "linear(elu1)+bn+sh(1,2)", "linear(elu1)+causal", "dot+one"})
    EXPECT_FALSE(moves(finite)) << finite;
  for (const char* pairs : {"softmax", "rbf(gamma=0.5)", "linear(elu1)+window(2)"}) EXPECT_TRUE(moves(pairs)) << pairs;
}

TEST(EncoderBlock, DropPathLeavesOutWholeSequencesAndKeepsTheMean) {
  torch::manual_seed(9);
  EncoderBlock block(EncoderBlockOptions(8, 1).drop_path(0.5));
  const torch::NoGradGuard guard;
  block->mlp->fc2->weight.zero_();
  block->mlp->fc2->bias.zero_();
  const Tensor x = torch::randn({1, 3, 8}).expand({2000, 3, 8}).contiguous();
  const Tensor added = (block(x) - x).abs().sum({1, 2});
  block->eval();
  const double whole = (block(x) - x).abs().sum({1, 2})[0].item<double>();
  EXPECT_NEAR(added.eq(0).to(kFloat).mean().item<double>(), 0.5, 0.05);
  EXPECT_NEAR(added.max().item<double>(), 2 * whole, 1e-4 * whole);
}

TEST(Encoder, TakesAnAttentionPerLayer) {
  const auto options = EncoderOptions(EncoderBlockOptions(16, 2).drop_path(0.2), 3)
                           .attention(attention_of_layers({"softmax"}, "linear(elu1)", 3));
  Encoder encoder(options);
  EXPECT_EQ(encoder[0]->options.attention(), "softmax");
  EXPECT_EQ(encoder[2]->options.attention(), "linear(elu1)");
  EXPECT_EQ(encoder[0]->options.drop_path(), 0);
  EXPECT_DOUBLE_EQ(encoder[1]->options.drop_path(), 0.1);
  EXPECT_EQ(encoder->named_parameters()["2.attn.qkv.weight"].size(0), 48);
  EXPECT_EQ(attention_of_layers({"cat", "softmax"}, "", 4),
            (std::vector<std::string>{"cat", "softmax", "cat", "softmax"}));
  EXPECT_THROW(attention_of_layers({"softmax", "softmax"}, "", 3), InvalidArgument);
}

TEST(Encoder, IsCloned) {
  Encoder encoder(EncoderOptions(EncoderBlockOptions(16, 2).attention("softmax+bn(beta=0.5,learn=shared)"), 2));
  encoder->eval();
  const auto copy = std::dynamic_pointer_cast<EncoderImpl>(encoder->clone());
  const Tensor x = torch::randn({2, 5, 16});
  EXPECT_TRUE(torch::equal(encoder(x), copy->forward(x)));
  const torch::NoGradGuard guard;
  for (const Tensor& p : encoder->parameters()) p.add_(0.1);
  EXPECT_FALSE(torch::equal(encoder(x), copy->forward(x)));
}

TEST(EncoderBlock, RefusesWhatCannotBe) {
  EXPECT_THROW(EncoderBlock(EncoderBlockOptions(10, 3)), InvalidArgument);
  EXPECT_THROW(EncoderBlock(EncoderBlockOptions(12, 3).norm("group")), InvalidArgument);
  EXPECT_THROW(EncoderBlock(EncoderBlockOptions(12, 3).activation("tanh")), InvalidArgument);
  EXPECT_THROW(EncoderBlock(EncoderBlockOptions(12, 3).drop_path(1)), InvalidArgument);
  EXPECT_THROW(Encoder(EncoderOptions(EncoderBlockOptions(12, 3), 0)), InvalidArgument);
}

}  // namespace
}  // namespace saddle::nn
