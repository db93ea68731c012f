// What the composed path promises beside the numbers of the reference: range, layout, masks, score bias, second
// derivatives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saddle/nn/composed/testing_internal.hpp"

namespace saddle::nn {
namespace {

using namespace composed::testing;
using torch::indexing::Slice;

TEST(ComposedBehaviour, StaysFiniteForLargeScores) {
  for (const char* text : {"softmax", "softmax+sum(den_eps=0.1)", "rbf", "rbf(gamma=2)+bn(scale=std)"})
    for (const double far : {0.0, 1e6}) {
      SCOPED_TRACE(text);
      Sample s = make_sample(text, shapes[0], Masks::both);
      for (saddle::Tensor* x : {&s.q, &s.k})
        for (Index i = 0; i < x->size(); ++i) x->set(i, 30 * x->at(i) + far);
      const bool is_exact = far == 0 || std::string_view(text).starts_with("rbf");
      if (is_exact) expect_equal(run(s.attention, inputs_of(s)), expected(s), 1e-8);
      for (const auto& [name, tensor] : run(s.attention, inputs_of(s)))
        EXPECT_TRUE(name == "lse" || tensor.isfinite().all().item<bool>()) << name;
    }
}

TEST(ComposedBehaviour, LaysOutputOutAsTokensByHeads) {
  for (const char* text : {"softmax", "softmax+sh+bias"}) {
    const Sample s = make_sample(text, shapes[2], Masks::none);
    const Tensor y = composed_attention(s.attention, inputs_of(s)).y;
    EXPECT_EQ(y.transpose(1, 2).flatten(2).data_ptr(), y.data_ptr());
  }
}

TEST(ComposedBehaviour, TakesStridedTensorsAndBroadcastMasks) {
  Sample s = make_sample("softmax+bn+sh", shapes[1], Masks::both);
  AttentionInputs inputs = inputs_of(s);
  inputs.mask = inputs.mask.index({Slice(0, 1), Slice(0, 1)}).clone();  // the same for all
  const Tensor full = composed_attention(s.attention, inputs).y;
  for (Tensor* tensor : {&inputs.q, &inputs.k, &inputs.v})
    *tensor = tensor->detach().transpose(1, 2).contiguous().transpose(1, 2);
  inputs.mask = inputs.mask[0][0];
  EXPECT_EQ(error_of(composed_attention(s.attention, inputs).y, full), 0);
}

// The derivative of log-sum-exp is the mean key; the others are the weights themselves.
TEST(ComposedBehaviour, OptionalOutputsCarryGradients) {
  const Sample s = make_sample("softmax(scale=0.7)", shapes[0], Masks::both);
  const AttentionInputs inputs = inputs_of(s);
  const AttentionOutputs out = composed_attention(s.attention, inputs, {true, true, true});
  const Tensor sees = out.weights.sum(-1) > 0;
  const auto dq = torch::autograd::grad({out.lse.masked_select(sees).sum()}, {inputs.q}, {}, true)[0];
  const Tensor k = inputs.k.masked_fill((inputs.key_mask == 0).unsqueeze(1).unsqueeze(-1), 0);
  EXPECT_LT(error_of(dq, (0.7 * out.weights.matmul(k)).detach()), 1e-12);
  const Tensor c = random_like(out.column_sums);
  const auto by_sums = torch::autograd::grad({(c * out.column_sums).sum()}, {inputs.k}, {}, true)[0];
  const auto by_weights = torch::autograd::grad({(c.unsqueeze(2) * out.weights).sum()}, {inputs.k})[0];
  EXPECT_GT(by_weights.abs().max().item<double>(), 0);
  EXPECT_LT(error_of(by_sums, by_weights), 1e-12);
}

TEST(ComposedBehaviour, AddsABiasToTheScores) {
  const Sample s = make_sample("softmax", shapes[0], Masks::none);
  AttentionInputs inputs = inputs_of(s);
  Tensor bias = random_like(torch::zeros({3, 4, 5}, torch::kFloat64));
  bias.index_put_({0, 1, Slice(2, 4)}, -infinity);
  bias.requires_grad_();
  inputs.score_bias = bias;
  const Tensor y = composed_attention(s.attention, inputs).y;
  const Tensor scores = inputs.q.matmul(inputs.k.transpose(2, 3)) / std::sqrt(3.0) + bias;
  const Tensor plain = scores.softmax(-1).matmul(inputs.v);
  EXPECT_LT(error_of(y.detach(), plain.detach()), 1e-14);
  const std::vector<Tensor> wanted{inputs.q, inputs.k, inputs.v, bias};
  const auto ours = torch::autograd::grad({y}, wanted, {random_like(y)});
  const auto theirs = torch::autograd::grad({plain}, wanted, {random_like(y)});
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_LT(error_of(ours[i], theirs[i]), 1e-13) << i;
}

TEST(ComposedBehaviour, AMinusInfinityBiasIsAMask) {
  for (const char* text : {"softmax", "rbf+bn(scale=std)", "softmax+sum(den_eps=0.2)", "softmax+one"}) {
    const Sample s = make_sample(text, shapes[0], Masks::rows);
    AttentionInputs inputs = inputs_of(s);
    const Named masked = run(s.attention, inputs);
    inputs.score_bias = torch::zeros({}, torch::kFloat64).expand_as(inputs.mask).masked_fill(~inputs.mask, -infinity);
    inputs.mask = Tensor();
    const Named biased = run(s.attention, inputs);
    for (const char* name : {"y", "weights", "dq", "dk", "dv"})
      EXPECT_LT(error_of(biased.at(name), masked.at(name)), 1e-13) << text << ", " << name;
  }
}

TEST(ComposedBehaviour, SaysWhatItCannotDo) {
  using ::testing::HasSubstr;
  const auto message = [](const std::string& text, const std::function<void(AttentionInputs&)>& change,
                          const Wanted& wanted = {}) {
    const Sample s = make_sample(text, shapes[1], Masks::none);
    AttentionInputs inputs = inputs_of(s);
    change(inputs);
    return message_of([&] { composed_attention(s.attention, inputs, wanted); });
  };
  const auto add_bias = [](AttentionInputs& inputs) { inputs.score_bias = torch::zeros({6, 6}, torch::kFloat64); };
  EXPECT_THAT(message("linear(elu1)", add_bias), HasSubstr("use softmax or rbf"));
  EXPECT_THAT(message("softmax+sh", add_bias), HasSubstr("sh pools the keys"));
  EXPECT_THAT(message("softmax",
                      [](auto& inputs) {
                        inputs.score_bias = torch::zeros({6, 6}, torch::kInt64);
                      }),
              HasSubstr("use a floating one"));
  EXPECT_THAT(message("softmax",
                      [](auto& inputs) {
                        inputs.mask = torch::ones({5, 6}, torch::kBool);
                      }),
              HasSubstr("mask has shape (5,6): it must broadcast to (B,H,N,M) = (2,2,6,6)"));
  EXPECT_THAT(message("softmax+residual", [](auto& inputs) { inputs.skip = Tensor(); }), HasSubstr("no skip tensor"));
  EXPECT_THAT(message("softmax", [](auto& inputs) { inputs.v = inputs.v.slice(2, 1); }), HasSubstr("(B,H,M,E)"));
  EXPECT_THAT(message("softmax", [](auto& inputs) { inputs.parameters["beta"] = inputs.q; }), HasSubstr("beta"));
  EXPECT_THAT(message("dot", [](auto&) {}, {false, true, false}), HasSubstr("log-sum-exp"));
}

// Second derivatives against central differences of the first: d<w,grad>/dx for every entry of every input.
TEST(ComposedBehaviour, CanBeDifferentiatedTwice) {
  for (const char* text :
       {"softmax", "softmax+bn", "softmax+bn(scale=std,learn=head)+causal", "rbf+l2+sum(den_eps=0.1)",
        "linear(elu1)+conv1d(3)", "linear(random,count=4)+bn(scale=std)+sh(1,2)", "poly(degree=3)+sum(den_eps=9)",
        "linear(taylor)+conv2d(3x3,axis=token)+bias"}) {
    const Sample s = make_sample(text, {2, 2, 4, 4, 2, 2}, Masks::both);
    const AttentionInputs inputs = inputs_of(s);
    std::vector<Tensor> wanted;
    for (const auto& [name, tensor] : leaves(inputs)) wanted.push_back(tensor);
    const auto along = [&] {  // <w,grad>
      const Tensor y = composed_attention(s.attention, inputs).y;
      const auto first = torch::autograd::grad({y}, wanted, {random_like(y)}, true, true);
      Tensor sum = torch::zeros({}, torch::kFloat64);
      for (const Tensor& gradient : first) sum = sum + (gradient * random_like(gradient, 7)).sum();
      return sum;
    };
    const auto second = torch::autograd::grad({along()}, wanted, {}, {}, false, true);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      Tensor differences = torch::zeros_like(wanted[i]);
      for (Index at = 0; at < differences.numel(); ++at) {
        double* const entry = wanted[i].data_ptr<double>() + at;
        const double before = *entry, step = 1e-5;
        *entry = before + step;
        const double above = along().item<double>();
        *entry = before - step;
        const double below = along().item<double>();
        *entry = before;
        differences.data_ptr<double>()[at] = (above - below) / (2 * step);
      }
      const Tensor exact = second[i].defined() ? second[i] : torch::zeros_like(differences);
      EXPECT_LT(error_of(exact, differences), 1e-7) << text << ", input " << i;
    }
  }
}

}  // namespace
}  // namespace saddle::nn
