#include "saddle/nn/multihead_attention.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "saddle/base/error.hpp"
#include "saddle/nn/taps.hpp"

namespace saddle::nn {
namespace {

double difference(const Tensor& a, const Tensor& b) {
  return ((a - b).abs().max() / b.abs().max().clamp_min(1)).item<double>();
}

// Weights of torch's module in ours, by name.
void copy_weights(const torch::nn::Module& from, torch::nn::Module& to) {
  const torch::NoGradGuard guard;
  auto own = to.named_parameters();
  for (const auto& item : from.named_parameters()) own[item.key()].copy_(item.value());
}

struct Masks {
  Tensor key_padding, attn;
};

class AsTorch : public testing::TestWithParam<bool> {  // whether weights are asked for
 protected:
  // Ours against torch::nn::MultiheadAttention on the same tensors [N,B,X].
  static void compare(torch::nn::MultiheadAttention& theirs, MultiheadAttention& ours, const Tensor& q, const Tensor& k,
                      const Tensor& v, const Masks& masks, bool weights, const char* what) {
    SCOPED_TRACE(what);
    const auto [a, a_weights] = ours->forward(q, k, v, masks.key_padding, weights, masks.attn);
    const auto [b, b_weights] = theirs->forward(q, k, v, masks.key_padding, weights, masks.attn);
    EXPECT_LT(difference(a, b), 1e-11);
    if (weights) {
      EXPECT_LT(difference(a_weights, b_weights), 1e-11);
    }
    const Tensor dy = torch::randn_like(b);
    const auto mine = torch::autograd::grad({a}, {q, ours->out_proj->weight}, {dy});
    const auto his = torch::autograd::grad({b}, {q, theirs->out_proj->weight}, {dy});
    for (std::size_t i = 0; i < mine.size(); ++i) EXPECT_LT(difference(mine[i], his[i]), 1e-10);
  }
};

TEST_P(AsTorch, GivesTheSameFromTheSameState) {
  torch::manual_seed(5);
  torch::nn::MultiheadAttention theirs(torch::nn::MultiheadAttentionOptions(12, 3));
  MultiheadAttention ours(12, 3);
  theirs->to(torch::kFloat64);
  ours->to(torch::kFloat64);
  copy_weights(*theirs, *ours);
  const Tensor x = torch::randn({7, 2, 12}, torch::kFloat64).requires_grad_();
  const Tensor other = torch::randn({5, 2, 12}, torch::kFloat64);
  Tensor padding = torch::zeros({2, 7}, torch::kBool);
  padding[1].narrow(0, 5, 2).fill_(true);
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor causal = torch::full({7, 7}, -infinity, torch::kFloat64).triu(1);
  const Tensor added = torch::randn({7, 7}, torch::kFloat64);
  compare(theirs, ours, x, x, x, {}, GetParam(), "plain");
  compare(theirs, ours, x, other, other, {}, GetParam(), "cross");
  compare(theirs, ours, x, x, x, {padding, {}}, GetParam(), "padding");
  compare(theirs, ours, x, x, x, {{}, causal}, GetParam(), "causal, numbers");
  compare(theirs, ours, x, x, x, {padding, causal}, GetParam(), "padding and causal");
  compare(theirs, ours, x, x, x, {padding, added}, GetParam(), "added numbers");
}

TEST_P(AsTorch, KnowsOtherWidthsOfKeysAndValues) {
  torch::manual_seed(6);
  torch::nn::MultiheadAttention theirs(torch::nn::MultiheadAttentionOptions(8, 2).kdim(5).vdim(5));
  MultiheadAttention ours(MultiheadAttentionOptions(8, 2).kdim(5).vdim(5));
  theirs->to(torch::kFloat64);
  ours->to(torch::kFloat64);
  copy_weights(*theirs, *ours);
  const auto options = torch::TensorOptions(torch::kFloat64);
  compare(theirs, ours, torch::randn({4, 3, 8}, options).requires_grad_(), torch::randn({9, 3, 5}, options),
          torch::randn({9, 3, 5}, options), {}, GetParam(), "widths");
}

INSTANTIATE_TEST_SUITE_P(Weights, AsTorch, testing::Bool());

// torch's own module in C++ adds the ones and zeros of such a mask in version 1.13; its numbers are right.
TEST(MultiheadAttention, TruthValuesMeanWhatMinusInfinityMeans) {
  torch::manual_seed(10);
  MultiheadAttention module(12, 3);
  const Tensor x = torch::randn({7, 2, 12});
  const Tensor hidden = torch::ones({6, 7, 7}, torch::kBool).triu(1);
  const Tensor numbers = torch::zeros({6, 7, 7}).masked_fill(hidden, -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(torch::equal(std::get<0>(module->forward(x, x, x, {}, false, hidden)),
                           std::get<0>(module->forward(x, x, x, {}, false, numbers))));
  EXPECT_LT(difference(std::get<0>(module->forward(x, x, x, {}, false, numbers)),
                       std::get<0>(module->forward(x, x, x, {}, false, numbers[0]))),
            1e-6);
}

TEST(MultiheadAttention, AddsNumbersOfPaddingToTheScores) {
  torch::manual_seed(11);
  MultiheadAttention module(12, 3);
  const Tensor x = torch::randn({7, 2, 12}), numbers = torch::randn({2, 7}).requires_grad_();
  const Tensor y = std::get<0>(module->forward(x, x, x, numbers, false));
  // The same numbers for every head and query.
  const Tensor all = numbers.detach().repeat_interleave(3, 0).unsqueeze(1).expand({6, 7, 7});
  EXPECT_LT(difference(y, std::get<0>(module->forward(x, x, x, {}, false, all))), 1e-6);
  y.square().sum().backward();
  EXPECT_GT(numbers.grad().abs().max().item<float>(), 0);
  const Tensor hidden = torch::zeros({2, 7}, torch::kBool).index_put_({1, 3}, true);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(
      torch::equal(std::get<0>(module->forward(x, x, x, hidden, false)),
                   std::get<0>(module->forward(x, x, x, torch::zeros({2, 7}).masked_fill(hidden, -infinity), false))));
}

TEST(MultiheadAttention, RefusesMasksThatDoNotFit) {
  MultiheadAttention module(12, 3);
  const Tensor x = torch::randn({7, 2, 12});
  for (const Tensor& mask : {torch::zeros({6, 7}), torch::zeros({6, 7, 6}), torch::zeros({7}),
                             torch::zeros({7, 7}, torch::kInt64), torch::zeros({5, 7, 7}, torch::kBool)})
    EXPECT_THROW(module->forward(x, x, x, {}, false, mask), InvalidArgument) << mask.sizes();
  for (const Tensor& mask : {torch::zeros({7, 2}), torch::zeros({2, 7}, torch::kInt64), torch::zeros({2, 6})})
    EXPECT_THROW(module->forward(x, x, x, mask, false), InvalidArgument) << mask.sizes();
}

TEST(MultiheadAttention, BatchesComeFirstOrSecondOrNotAtAll) {
  torch::manual_seed(7);
  MultiheadAttention second(MultiheadAttentionOptions(8, 2)), first(MultiheadAttentionOptions(8, 2).batch_first(true));
  copy_weights(*second, *first);
  const Tensor x = torch::randn({3, 6, 8});
  const Tensor a = std::get<0>(first->forward(x, x, x, {}, false));
  const Tensor xt = x.transpose(0, 1);
  EXPECT_LT(difference(std::get<0>(second->forward(xt, xt, xt, {}, false)).transpose(0, 1), a), 1e-6);
  const Tensor one = x[1];
  const auto [y, weights] = second->forward(one, one, one);
  EXPECT_LT(difference(y, a[1]), 1e-6);
  EXPECT_EQ(weights.sizes(), (std::vector<int64_t>{6, 6}));
  EXPECT_LT(difference(first->self_attention(x), a), 1e-6);
}

// Pooled before the projections or inside the kernel: the same numbers.
TEST(MultiheadAttention, PoolsTheInputOfScaledHeads) {
  for (const char* text : {"softmax+sh(1,2,2,4)", "attention_bn_sh(learn=head)+bias", "softmax+sh(1,2,2,4,tail=drop)",
                           "linear(elu1)+sh(2,2,4,4)", "softmax+sh(1,1,2,2,pool=2d,grid=3x3,prefix=1)",
                           "softmax+bn(learn=head)+sh(4,1,3,1)", "softmax+sh(1,12,2,2,tail=drop)"}) {
    torch::manual_seed(8);
    MultiheadAttention module(MultiheadAttentionOptions(16, 4).attention(text).batch_first(true));
    module->to(torch::kFloat64);
    const Tensor x = torch::randn({2, 10, 16}, torch::kFloat64).requires_grad_();
    Tensor padding = torch::zeros({2, 10}, torch::kBool);
    padding[1].narrow(0, 7, 3).fill_(true);
    for (const Tensor& mask : {Tensor(), padding}) {
      const Tensor pooled = std::get<0>(module->forward(x, x, x, mask, false));
      const Tensor inside = std::get<0>(module->forward(x, x, x, mask, true));  // weights keep it in the kernel
      EXPECT_LT(difference(pooled, inside), 1e-12) << text;
      std::vector<Tensor> tensors = module->parameters();
      tensors.push_back(x);
      const Tensor dy = torch::randn_like(pooled);
      const auto a = torch::autograd::grad({pooled}, tensors, {dy}), b = torch::autograd::grad({inside}, tensors, {dy});
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_LT(difference(a[i], b[i]), 1e-11) << text << " " << i;
    }
  }
}

// Keys and values that analyses are shown are those that the output is made of, also where heads would be pooled early.
TEST(MultiheadAttention, ShowsItsKeysAndValues) {
  for (const char* attention : {"softmax", "softmax+sh"}) {
    torch::manual_seed(8);
    MultiheadAttention module(MultiheadAttentionOptions(12, 3).attention(attention).batch_first(true));
    const Tensor x = torch::randn({2, 6, 12});
    const Tensor plain = std::get<0>(module->forward(x, x, x, {}, false));
    Taps taps(false, false, true);
    const Tensor y = std::get<0>(module->forward(x, x, x, {}, false));
    EXPECT_LT(difference(y, plain), 1e-5) << attention;
    auto& parts = taps.layers.at(0).parts;
    const Tensor v =
        torch::matmul(x, module->in_proj_weight.narrow(0, 24, 12).t()) + module->in_proj_bias.narrow(0, 24, 12);
    EXPECT_LT(difference(parts.at("values"), v.unflatten(2, {3, -1}).transpose(1, 2)), 1e-5) << attention;
    EXPECT_EQ(parts.at("keys").sizes(), (std::vector<int64_t>{2, 3, 6, 4}));
    EXPECT_FALSE(parts.at("keys").requires_grad());
  }
}

TEST(MultiheadAttention, DropsWeightsWhileTrainingOnly) {
  MultiheadAttention module(MultiheadAttentionOptions(8, 2).dropout(0.5).batch_first(true));
  const Tensor x = torch::randn({2, 6, 8});
  torch::manual_seed(9);
  const Tensor a = module->self_attention(x), b = module->self_attention(x);
  torch::manual_seed(9);
  EXPECT_TRUE(torch::equal(module->self_attention(x), a));
  EXPECT_FALSE(torch::equal(a, b));
  module->eval();
  EXPECT_TRUE(torch::equal(module->self_attention(x), module->self_attention(x)));
}

TEST(MultiheadAttention, ClonesWithItsParameters) {
  MultiheadAttention module(
      MultiheadAttentionOptions(8, 2).attention("attention_bn(learn=head)+residual").batch_first(true));
  const auto copy = std::dynamic_pointer_cast<MultiheadAttentionImpl>(module->clone());
  ASSERT_NE(copy, nullptr);
  const Tensor x = torch::randn({2, 5, 8});
  EXPECT_TRUE(torch::equal(copy->self_attention(x), module->self_attention(x)));
  {
    const torch::NoGradGuard guard;
    copy->named_parameters()["beta"].fill_(3);
  }
  EXPECT_FALSE(torch::equal(copy->self_attention(x), module->self_attention(x)));
}

TEST(MultiheadAttention, RefusesWidthsThatDoNotDivide) {
  EXPECT_THROW(MultiheadAttention(10, 3), InvalidArgument);
  EXPECT_THROW(MultiheadAttention(MultiheadAttentionOptions(8, 2).attention("softmx")), InvalidArgument);
}

TEST(MultiheadAttention, IsCalledWithThreeArgumentsInsideAnyModule) {
  MultiheadAttention layer(MultiheadAttentionOptions(8, 2).batch_first(true));
  torch::nn::AnyModule any(layer);
  const Tensor x = torch::randn({1, 3, 8});
  EXPECT_TRUE(torch::equal(std::get<0>(any.forward<std::tuple<Tensor, Tensor>>(x, x, x)),
                           std::get<0>(layer->forward(x, x, x))));
}

}  // namespace
}  // namespace saddle::nn
