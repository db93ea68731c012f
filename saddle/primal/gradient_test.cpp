// Gradients of the reference against central differences, for every part and for combinations; and the primal form
// against the reference.
#include <gtest/gtest.h>

#include "saddle/primal/testing_internal.hpp"

namespace saddle::primal {
namespace {

using namespace testing;

// What the call brings besides its tensors.
enum class Masks { none, keys, rows, both };

struct Declared {
  std::string text;
  Masks masks = Masks::none;
  Dims dims{2, 2, 4, 5, 3, 2};  // B, H, N, M, D, E
};

void PrintTo(const Declared& declared, std::ostream* out) { *out << declared.text; }

const Dims square{2, 2, 5, 5, 3, 2};  // N = M, for convolutions over tokens and grids
const Dims wide{1, 2, 5, 6, 6, 2};    // D = 2x3, for grids of features
const Dims image{1, 2, 3, 13, 2, 2};  // one prefix token and a 3x4 grid

const std::vector<Declared> declarations{
    // kernels
    {"softmax"},
    {"softmax(scale=0.7)", Masks::both},
    {"rbf"},
    {"rbf(gamma=0.4)", Masks::both},
    {"dot"},
    {"poly"},
    {"poly(degree=3,coef0=0.5)", Masks::rows},
    {"poly(coef0=0)", Masks::keys},
    {"linear(elu1)", Masks::both},
    {"linear(relu)"},
    {"linear(taylor)", Masks::keys},
    {"linear(taylor,order=3)+one"},
    {"linear(taylor,order=0)"},
    {"linear(random,count=7,seed=3)", Masks::both},
    {"cosine", Masks::rows},
    // normalisers
    {"softmax+one"},
    {"softmax+sum(den_eps=0.3)", Masks::both},
    {"rbf+constant(2.5)", Masks::rows},
    {"linear(elu1)+sqrt_length", Masks::keys},
    {"linear(relu)+sum(den_eps=0.5)", Masks::both},
    {"dot+constant(-3)"},
    {"poly(degree=2)+sum(den_eps=0.1)", Masks::keys},
    {"linear(elu1)+one"},
    // transforms
    {"softmax+bn", Masks::keys},
    {"softmax+bn(beta=0.6,scale=std)", Masks::both},
    {"softmax+bn(learn=shared)"},
    {"softmax+bn(scale=std,learn=head)", Masks::keys},
    {"softmax+bn(stats=subset,scale=std)", Masks::both},
    {"softmax+l2", Masks::keys},
    {"softmax+conv1d(3)", Masks::keys},
    {"softmax+conv1d(5,share=true)", Masks::rows, wide},
    {"softmax+conv1d(3,axis=token)", Masks::both, square},
    {"softmax+conv2d(3x3)", Masks::none, wide},
    {"softmax+conv2d(3x1,grid=3x2,share=true)", Masks::keys, wide},
    {"softmax+conv2d(3x3,axis=token)", Masks::both, {1, 2, 6, 6, 2, 2}},
    {"linear(elu1)+bn(beta=0.8,scale=std,learn=head)", Masks::both},
    {"rbf+bn(scale=std)+conv1d(3)+l2", Masks::keys},
    {"softmax+conv1d(3)+bn(stats=subset,scale=std,learn=shared)", Masks::both},
    {"softmax+bn(stats=subset)+conv1d(3)+l2", Masks::both},
    {"dot+conv1d(3,axis=token)+l2", Masks::keys, square},
    // pooling
    {"softmax+sh(1,2)"},
    {"softmax+sh", Masks::keys},
    {"softmax+sh(2,3,tail=drop)", Masks::both},
    {"softmax+sh(2,9)", Masks::keys},
    {"softmax+sh(3,9,tail=drop)"},  // head 1 has no key left
    {"softmax+sh(2,3,visibility=all)", Masks::both},
    {"softmax+sh(1,2,pool=2d,grid=3x4,prefix=1)", Masks::both, image},
    {"softmax+sh(2,3,pool=2d,grid=3x4,prefix=1,tail=drop)", Masks::keys, image},
    {"softmax+bn(scale=std,learn=head)+sh(1,2)", Masks::both},
    {"linear(elu1)+bn(beta=0.5,learn=shared)+sh(1,2)", Masks::keys},
    {"rbf+sh(2,2)+one", Masks::keys},
    {"softmax+conv1d(3)+sh(1,2)+window(1)", Masks::keys},
    // key sets
    {"softmax+causal", Masks::keys},
    {"softmax+window(1)"},
    {"softmax+local(2)", Masks::keys, square},
    {"softmax+strided(2)", Masks::none, square},
    {"softmax+fixed(3,num_verts=2)", Masks::none, {1, 2, 7, 7, 2, 2}},
    {"softmax+global_window(1,n_global=1)", Masks::keys, square},
    {"softmax+causal+window(2)", Masks::both, square},
    {"softmax+padding+explicit", Masks::both},
    {"linear(elu1)+causal", Masks::keys},
    {"poly+causal+one", Masks::none, square},
    {"softmax+bn(scale=std)+causal", Masks::both, square},
    {"softmax+bn(stats=global,leak=allow,scale=std)+causal", Masks::keys, square},
    {"linear(elu1)+bn(scale=std,learn=head)+causal", Masks::keys, square},
    {"softmax+bn+sh(1,2)+causal", Masks::keys, square},
    {"softmax+sh(2,2,visibility=any,leak=allow)+causal", Masks::keys, square},
    {"softmax+conv1d(3,axis=token,leak=allow)+bn+causal", Masks::keys, square},
    {"linear(relu)+bn+sh(1,2)+local(3)", Masks::both, square},
    // offset
    {"softmax+bias", Masks::both},
    {"linear(elu1)+residual", Masks::rows},
    {"rbf+bn(learn=head)+sh(1,2)+window(2)+bias+residual", Masks::both},
};

Sample build(const Declared& declared) {
  Sample s = sample(declared.text, declared.dims);
  if (declared.masks == Masks::keys || declared.masks == Masks::both) add_key_mask(s, declared.dims.B > 1);
  if (declared.masks == Masks::rows || declared.masks == Masks::both) add_mask(s);
  return s;
}

class Gradient : public ::testing::TestWithParam<Declared> {
 protected:
  OneThread one_thread_;
};

TEST_P(Gradient, EqualsDifferences) {
  Sample s = build(GetParam());
  const Tensor dy = cotangent(run(s));
  const auto exact = gradients(s, dy);
  const auto value = [&] { return dot(dy, run(s)); };
  const auto check = [&](const std::string& name, Tensor& x) {
    EXPECT_LT(error_of(exact.at(name), differences(x, value)), 1e-6) << GetParam().text << ", " << name;
  };
  check("q", s.q);
  check("k", s.k);
  check("v", s.v);
  if (s.attention.residual) check("skip", s.skip);
  for (auto& [name, parameter] : s.parameters) check(name, parameter);
}

// The primal form wherever it does not refuse: same values, same gradients.
TEST_P(Gradient, OfThePrimalFormIsTheSame) {
  const Sample s = build(GetParam());
  const auto refusals = primal_form_refusals(s.attention, static_cast<bool>(s.call().mask));
  if (!refusals.empty()) {
    for (const std::string& reason : refusals) EXPECT_FALSE(reason.empty());
    return;
  }
  const Tensor y = run(s), dy = cotangent(y);
  EXPECT_LT(error_of(run(s, primal_forward), y), 1e-12);
  const auto dual = gradients(s, dy), primal = gradients(s, dy, primal_backward);
  ASSERT_EQ(dual.size(), primal.size());
  for (const auto& [name, gradient] : dual) EXPECT_LT(error_of(primal.at(name), gradient), 1e-11) << name;
}

// Rows that see nothing give 0 (plus offset) and pass no gradient on; nothing is NaN.
TEST_P(Gradient, EmptyRowsAreZero) {
  Sample s = build(GetParam());
  const Dims dims = s.dims();
  s.mask = Tensor(DType::u8, {dims.B, dims.H, dims.N, dims.M});  // nothing is visible
  if (s.parameters.contains("bias")) s.parameters["bias"] = Tensor(DType::f64, s.parameters["bias"].shape());
  if (s.attention.residual) s.skip = Tensor(DType::f64, s.skip.shape());
  const Tensor y = run(s), dy = cotangent(y);
  for (Index i = 0; i < y.size(); ++i) EXPECT_EQ(y.at(i), 0);
  for (const auto& [name, gradient] : gradients(s, dy)) {
    if (name == "bias" || name == "skip") continue;
    for (Index i = 0; i < gradient.size(); ++i) ASSERT_EQ(gradient.at(i), 0) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Declared, Gradient, ::testing::ValuesIn(declarations));

// What a padded key holds must not matter, not even if it is NaN: neither to values nor to gradients.
TEST(Gradients, PaddedKeysAreNeverRead) {
  const OneThread one_thread;
  for (const Declared& declared : declarations) {
    if (declared.masks != Masks::keys && declared.masks != Masks::both) continue;
    Sample s = build(declared);
    const Tensor y = run(s), dy = cotangent(y);
    const auto before = gradients(s, dy);
    const Dims dims = s.dims();
    for (Index b = 0; b < dims.B; ++b)
      for (Index j = 0; j < dims.M; ++j) {
        if (s.key_mask.at(b * dims.M + j) != 0) continue;
        for (Index h = 0; h < dims.H; ++h) {
          const Index row = (b * dims.H + h) * dims.M + j;
          for (Index d = 0; d < dims.D; ++d) s.k.set(row * dims.D + d, std::nan(""));
          for (Index e = 0; e < dims.E; ++e) s.v.set(row * dims.E + e, std::nan(""));
        }
      }
    EXPECT_EQ(run(s), y) << declared.text;
    for (const auto& [name, gradient] : gradients(s, dy))
      EXPECT_EQ(error_of(gradient, before.at(name)), 0) << declared.text << ", " << name;
  }
}

// Leaving an output out must not change the others; shared parameters get the sum over heads.
TEST(Gradients, SharedParametersSumOverHeads) {
  const OneThread one_thread;
  Sample s = sample("softmax+bn(learn=head,scale=std)", {2, 3, 4, 5, 3, 2});
  for (Index h = 0; h < 3; ++h) s.parameters["beta"].set(h, 0.7);
  const Tensor dy = cotangent(run(s));
  const Tensor per_head = gradients(s, dy).at("beta");
  s.parameters["beta"] = Tensor(DType::f64, {1});
  s.parameters["beta"].set(0, 0.7);
  EXPECT_NEAR(gradients(s, dy).at("beta").at(0), per_head.at(0) + per_head.at(1) + per_head.at(2), 1e-12);
}

TEST(Gradients, SameBitsForAnyThreadCount) {
  const Sample s = build({"softmax+bn(learn=shared,scale=std)+sh(1,2)+bias", Masks::both, {3, 2, 7, 9, 4, 3}});
  const int before = threads();
  set_threads(1);
  const Tensor y = run(s), dy = cotangent(y);
  const auto one = gradients(s, dy);
  for (int count : {2, 5}) {
    set_threads(count);
    EXPECT_EQ(run(s), y);
    EXPECT_EQ(gradients(s, dy), one);
  }
  set_threads(before);
}

}  // namespace
}  // namespace saddle::primal
