// The composed path against the double reference: outputs and all gradients, every written form, every kind of mask.
#define TOML_HEADER_ONLY 0
#include <gtest/gtest.h>
#include <toml++/toml.h>

#include "saddle/nn/composed/testing_internal.hpp"

namespace saddle::nn {
namespace {

using namespace composed::testing;

// Beside those of the mechanisms.
const std::vector<std::string> written{
    "softmax(scale=0.7)",
    "rbf",
    "rbf(gamma=0.4)",
    "dot",
    "poly",
    "poly(degree=3,coef0=0.5)",
    "poly(degree=1)",
    "poly(coef0=0)",
    "linear(relu)",
    "linear(taylor,order=3)+one",
    "linear(taylor,order=0)",
    "linear(random,count=7,seed=3)",
    "cosine",
    "softmax+sum(den_eps=0.3)",
    "rbf+sum(den_eps=0.3)",
    "rbf+constant(2.5)",
    "linear(relu)+sum(den_eps=0.5)",
    "dot+constant(-3)",
    "poly(degree=2)+sum(den_eps=0.1)",
    "softmax+bn(beta=0.6,scale=std)",
    "softmax+bn(scale=std,learn=head)",
    "softmax+bn(stats=subset,scale=std)",
    "softmax+l2",
    "softmax+conv1d(5,share=true)",
    "softmax+conv1d(9)",
    "softmax+conv1d(3,axis=token)",
    "softmax+conv2d(3x3)",
    "softmax+conv2d(3x1,grid=3x2,share=true)",
    "softmax+conv2d(3x3,axis=token)",
    "linear(elu1)+bn(beta=0.8,scale=std,learn=head)",
    "rbf+bn(scale=std)+conv1d(3)+l2",
    "rbf+bn(beta=0.3,stats=subset)",
    "softmax+conv1d(3)+bn(stats=subset,scale=std,learn=shared)",
    "softmax+bn(stats=subset)+conv1d(3)+l2",
    "linear(random,count=5)+bn(stats=subset)+l2",
    "dot+conv1d(3,axis=token)+l2",
    "softmax+sh(2,3,tail=drop)",
    "softmax+sh(2,9)",
    "softmax+sh(3,15,tail=drop)",  // head 1 has no key left
    "softmax+bn(scale=std)+sh(3,15,tail=drop)+sum(den_eps=0.1)",
    "softmax+sh(2,3,visibility=all)",
    "softmax+sh(1,2,pool=2d,grid=3x4,prefix=1)",
    "softmax+sh(2,3,pool=2d,grid=3x4,prefix=1,tail=drop)",
    "softmax+sh(3,1,1,3)",
    "softmax+bn(scale=std,learn=head)+sh(2,1,4,1)+causal",
    "linear(elu1)+bn(beta=0.5,learn=shared)+sh(1,2)",
    "rbf+sh(2,2)+one",
    "softmax+conv1d(3)+sh(1,2)+window(1)",
    "softmax+fixed(3,num_verts=2)",
    "softmax+padding+explicit",
    "poly+causal+one",
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

bool is_allowed(const Sample& s) {
  try {
    validate(s.call());
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

// Calls visit(text, sample) for each form and each shape that it allows.
template <class Visit>
void for_each_case(Masks masks, Visit&& visit) {
  const primal::testing::OneThread one_thread;
  for (const std::string& text : forms()) {
    SCOPED_TRACE(text);
    int count = 0;
    for (const Dims& dims : shapes) {
      const Sample s = make_sample(text, dims, masks);
      if (!is_allowed(s)) continue;
      ++count;
      SCOPED_TRACE(to_string(Shape{dims.B, dims.H, dims.N, dims.M, dims.D, dims.E}));
      visit(s);
    }
    EXPECT_TRUE(count > 0 || masks != Masks::both);
  }
}

class Composed : public ::testing::TestWithParam<Masks> {};

TEST_P(Composed, EqualsTheReference) {
  for_each_case(GetParam(), [](const Sample& s) { expect_equal(run(s.attention, inputs_of(s)), expected(s), 1e-10); });
}

TEST_P(Composed, DropsWhatTheReferenceDrops) {
  const primal::testing::OneThread one_thread;
  const primal::Dropout some{0.3, 0x123456789abcdef0, 0xfedcba9876543210}, all{1, 5, 0}, hardly{1e-9, 5, 0};
  for (const char* text : {"softmax", "linear(elu1)+bn(scale=std)+sh(1,2)", "poly+causal"})
    for (const primal::Dropout& dropout : {some, all, hardly}) {
      SCOPED_TRACE(text);
      const Sample s = make_sample(text, {2, 2, 9, 21, 3, 2}, GetParam());
      AttentionInputs inputs = inputs_of(s);
      inputs.dropout = dropout;
      expect_equal(run(s.attention, inputs), expected(s, dropout), 1e-10);
    }
}

INSTANTIATE_TEST_SUITE_P(Masks, Composed, ::testing::Values(Masks::none, Masks::keys, Masks::rows, Masks::both));

TEST(ComposedAttention, TakesInitialValuesOfParametersThatAreNotGiven) {
  for (const char* text : {"softmax+bn(beta=0.6,learn=head)+conv1d(3)+bias", "softmax+conv2d(3x3,share=true)+sh"}) {
    Sample s = make_sample(text, shapes[2], Masks::keys);
    s.parameters.clear();
    expect_equal(run(s.attention, inputs_of(s)), expected(s), 1e-10);
  }
}

TEST(ComposedAttention, SharesParametersOfOneRowAmongHeads) {
  Sample s = make_sample("softmax+bn(learn=head)+conv1d(3)+sh(1,2,1,2)+bias", shapes[2], Masks::none);
  Stream stream(9, "test");
  for (auto& [name, tensor] : s.parameters) {
    Shape shape = tensor.shape();
    shape[0] = 1;
    tensor = primal::testing::random_tensor(shape, stream);
  }
  expect_equal(run(s.attention, inputs_of(s)), expected(s), 1e-10);
}

// NaN and inf in keys that do not exist change no bit.
TEST(ComposedAttention, NeverReadsPaddedKeys) {
  for (const double poison : {std::nan(""), infinity})
    for_each_case(Masks::keys, [&](const Sample& s) {
      const AttentionInputs inputs = inputs_of(s);
      AttentionInputs poisoned = inputs;
      const Tensor missing = (inputs.key_mask == 0).unsqueeze(1).unsqueeze(-1);
      poisoned.k = inputs.k.detach().masked_fill(missing, poison).requires_grad_();
      poisoned.v = inputs.v.detach().masked_fill(missing, poison).requires_grad_();
      expect_equal(run(s.attention, poisoned), run(s.attention, inputs), 0);
    });
}

TEST(ComposedAttention, GivesZeroToRowsThatSeeNothing) {
  for_each_case(Masks::both, [](const Sample& s) {
    AttentionInputs inputs = inputs_of(s);
    inputs.mask = torch::zeros({1}, torch::kBool);
    if (inputs.skip.defined()) inputs.skip = torch::zeros_like(inputs.skip).requires_grad_();
    if (s.attention.bias) inputs.parameters["bias"] = torch::zeros_like(inputs.parameters["bias"]).requires_grad_();
    for (const auto& [name, tensor] : run(s.attention, inputs)) {
      if (name == "dbias" || name == "dskip") continue;
      EXPECT_TRUE(name == "lse" ? (tensor == -infinity).all().item<bool>() : (tensor == 0).all().item<bool>()) << name;
    }
  });
}

TEST(ComposedAttention, HandlesNoQueriesAndNoKeys) {
  for (const char* text : {"softmax", "rbf+bn(scale=std)", "linear(elu1)+causal", "softmax+conv1d(3,axis=token)",
                           "softmax+bn+sh(1,2)+causal", "softmax+l2+sum(den_eps=0.5)"})
    for (const Dims& dims : {Dims{2, 2, 0, 3, 3, 2}, Dims{2, 2, 3, 0, 3, 2}, Dims{2, 2, 0, 0, 3, 2}}) {
      SCOPED_TRACE(text);
      const Sample s = make_sample(text, dims, Masks::none);
      expect_equal(run(s.attention, inputs_of(s)), expected(s), 1e-10);
    }
}

// Where maps have kinks or divide by what may vanish: tokens that are 0, a feature in which all keys agree.
TEST(ComposedAttention, AgreesAtZero) {
  for (const char* text : {"linear(elu1)", "linear(relu)", "softmax+l2", "cosine", "poly(coef0=0,degree=3)", "rbf",
                           "softmax+bn(scale=std,eps=0)", "softmax+bn(scale=std,eps=0)+causal"}) {
    SCOPED_TRACE(text);
    Sample s = make_sample(text, shapes[0], Masks::none);
    const Index D = s.dims().D;
    for (Index i = 0; i < D; ++i) {
      s.q.set(i, 0);
      s.k.set(i, 0);
    }
    if (!s.attention.transforms.empty() && std::holds_alternative<primal::BatchNorm>(s.attention.transforms[0]))
      for (Index i = 0; i < s.k.size(); i += D) s.k.set(i, 1);
    expect_equal(run(s.attention, inputs_of(s)), expected(s), 1e-10);
  }
}

TEST(ComposedAttention, ComputesInTheTypeOfItsInputs) {
  for_each_case(Masks::keys, [](const Sample& s) {
    const auto cast = [&](torch::ScalarType through, torch::ScalarType type) {
      AttentionInputs inputs = inputs_of(s);
      for (Tensor* tensor : {&inputs.q, &inputs.k, &inputs.v, &inputs.skip})
        if (tensor->defined()) *tensor = tensor->detach().to(through).to(type).requires_grad_();
      for (auto& [name, tensor] : inputs.parameters) tensor = tensor.detach().to(through).to(type).requires_grad_();
      return run(s.attention, inputs);
    };
    const Named coarse = cast(torch::kBFloat16, torch::kBFloat16), fine = cast(torch::kBFloat16, torch::kFloat32);
    for (const auto& [name, tensor] : coarse) {
      if (name.starts_with("d")) continue;  // the cotangent is rounded too
      const auto type = name == "lse" ? torch::kFloat32 : torch::kBFloat16;
      EXPECT_EQ(tensor.scalar_type(), type) << name;
      EXPECT_EQ(error_of(tensor, fine.at(name).to(type)), 0) << name;
    }
    const Named single = cast(torch::kFloat32, torch::kFloat32);
    EXPECT_EQ(single.at("y").scalar_type(), torch::kFloat32);
    EXPECT_EQ(single.at("dq").scalar_type(), torch::kFloat32);
  });
  const Sample s = make_sample("softmax+bn(scale=std)+sh", shapes[1], Masks::both);
  AttentionInputs inputs = inputs_of(s);
  for (Tensor* tensor : {&inputs.q, &inputs.k, &inputs.v}) *tensor = tensor->detach().to(torch::kFloat32);
  EXPECT_LT(error_of(composed_attention(s.attention, inputs).y, expected(s).at("y")), 1e-5);
}

}  // namespace
}  // namespace saddle::nn
