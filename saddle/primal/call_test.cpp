// Every wrong call is refused with a message that names the attention, what was found and what would work.
#include "saddle/primal/call.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saddle/primal/testing_internal.hpp"

namespace saddle::primal {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const Dims dims{2, 3, 4, 5, 6, 7};  // B, H, N, M, D, E

using Spoil = std::function<void(Sample&)>;

std::string refusal(const std::string& text, const Spoil& spoil) {
  Sample s = sample(text, dims);
  if (text.find("padding") != std::string::npos) add_key_mask(s);
  if (text.find("explicit") != std::string::npos) add_mask(s);
  EXPECT_NO_THROW(validate(s.call())) << text;  // it was right before
  spoil(s);
  std::string message = message_of([&] { validate(s.call()); });
  EXPECT_THAT(message, StartsWith("[" + text + "] "));
  return message;
}

Tensor f64(const Shape& shape) { return Tensor(DType::f64, shape); }

TEST(CallErrors, Shapes) {
  const auto q = [](const Shape& shape) { return [=](Sample& s) { s.q = f64(shape); }; };
  const auto k = [](const Shape& shape) { return [=](Sample& s) { s.k = f64(shape); }; };
  const auto v = [](const Shape& shape) { return [=](Sample& s) { s.v = f64(shape); }; };
  EXPECT_THAT(refusal("softmax", q({3, 4, 6})),
              AllOf(HasSubstr("queries have shape (3,4,6)"), HasSubstr("B,H,tokens,width")));
  EXPECT_THAT(refusal("softmax", q({})), HasSubstr("queries have shape ()"));
  EXPECT_THAT(refusal("softmax", k({2, 3, 5, 6, 1})), HasSubstr("keys have shape (2,3,5,6,1)"));
  EXPECT_THAT(refusal("softmax", v({2, 3, 5})), HasSubstr("values have shape (2,3,5)"));
  EXPECT_THAT(refusal("softmax", k({2, 3, 5, 8})), AllOf(HasSubstr("keys have shape (2,3,5,8) but queries (2,3,4,6)"),
                                                         HasSubstr("last dimensions must match")));
  EXPECT_THAT(refusal("softmax", k({1, 3, 5, 6})),
              AllOf(HasSubstr("(1,3,5,6)"), HasSubstr("batch and heads must match")));
  EXPECT_THAT(refusal("softmax", k({2, 1, 5, 6})), HasSubstr("batch and heads must match"));
  EXPECT_THAT(refusal("softmax", v({2, 3, 4, 7})),
              AllOf(HasSubstr("v has shape (2,3,4,7)"), HasSubstr("(B,H,M,E) = (2,3,5,7)")));
  EXPECT_THAT(refusal("softmax", v({2, 2, 5, 7})), HasSubstr("(B,H,M,E) = (2,3,5,7)"));
  const auto no_width = [](Sample& s) { s.q = f64({2, 3, 4, 0}), s.k = f64({2, 3, 5, 0}); };
  EXPECT_THAT(refusal("softmax", no_width), HasSubstr("D = 0: must be at least 1"));
  EXPECT_THAT(refusal("softmax", v({2, 3, 5, 0})), HasSubstr("E = 0: must be at least 1"));
}

TEST(CallErrors, DTypes) {
  const auto whole = [](Sample& s) {
    s.q = Tensor(DType::i32, s.q.shape());
    s.k = Tensor(DType::i32, s.k.shape());
    s.v = Tensor(DType::i32, s.v.shape());
  };
  EXPECT_THAT(refusal("softmax", whole), AllOf(HasSubstr("dtype i32"), HasSubstr("use f64, f32 or bf16")));
  const auto mixed = [](Sample& s) { s.v = Tensor(DType::f32, s.v.shape()); };
  EXPECT_THAT(refusal("softmax", mixed),
              AllOf(HasSubstr("values have dtype f32 but queries f64"), HasSubstr("dtypes must match")));
  const auto skip = [](Sample& s) { s.skip = Tensor(DType::i64, s.skip.shape()); };
  EXPECT_THAT(refusal("softmax+residual", skip), AllOf(HasSubstr("skip has dtype i64"), HasSubstr("f64, f32 or bf16")));
  const auto beta = [](Sample& s) { s.parameters["beta"] = Tensor(DType::u8, {1}); };
  EXPECT_THAT(refusal("softmax+bn", beta), AllOf(HasSubstr("beta has dtype u8"), HasSubstr("f64, f32 or bf16")));
}

TEST(CallErrors, Masks) {
  const auto key_mask = [](DType dtype, const Shape& shape) {
    return [=](Sample& s) { s.key_mask = Tensor(dtype, shape); };
  };
  const auto mask = [](DType dtype, const Shape& shape) { return [=](Sample& s) { s.mask = Tensor(dtype, shape); }; };
  EXPECT_THAT(refusal("softmax", key_mask(DType::u8, {2, 4})),
              AllOf(HasSubstr("key_mask has shape (2,4)"), HasSubstr("(B,M) = (2,5)")));
  EXPECT_THAT(refusal("softmax", key_mask(DType::f32, {2, 5})),
              AllOf(HasSubstr("key_mask has dtype f32"), HasSubstr("u8 or bool")));
  EXPECT_THAT(refusal("softmax", mask(DType::u8, {3, 4, 5})),
              AllOf(HasSubstr("mask has shape (3,4,5)"), HasSubstr("(B,H,N,M) = (2,3,4,5)")));
  EXPECT_THAT(refusal("softmax", mask(DType::i64, {2, 3, 4, 5})),
              AllOf(HasSubstr("mask has dtype i64"), HasSubstr("u8 or bool")));
  EXPECT_THAT(refusal("softmax+padding", [](Sample& s) { s.key_mask = {}; }), HasSubstr("brings no key mask"));
  EXPECT_THAT(refusal("softmax+explicit", [](Sample& s) { s.mask = {}; }), HasSubstr("explicit mask"));
}

TEST(CallErrors, Skip) {
  EXPECT_THAT(refusal("softmax+residual", [](Sample& s) { s.skip = {}; }), HasSubstr("brings no skip tensor"));
  EXPECT_THAT(refusal("softmax+residual",
                      [](Sample& s) {
                        s.skip = f64({2, 3, 5, 7});
                      }),
              AllOf(HasSubstr("skip has shape (2,3,5,7)"), HasSubstr("(B,H,N,E) = (2,3,4,7)")));
  EXPECT_THAT(refusal("softmax", [](Sample& s) { s.skip = f64({2, 3, 4, 7}); }), HasSubstr("declares no residual"));
}

TEST(CallErrors, Parameters) {
  const auto give = [](const std::string& name, const Shape& shape) {
    return [=](Sample& s) { s.parameters[name] = f64(shape); };
  };
  EXPECT_THAT(refusal("softmax", give("beta", {1})),
              AllOf(HasSubstr("'beta'"), HasSubstr("not part of this attention")));
  EXPECT_THAT(refusal("softmax+bn", give("kernel", {1, 3})), AllOf(HasSubstr("'kernel'"), HasSubstr("beta")));
  EXPECT_THAT(refusal("softmax+bn", give("beta", {2})),
              AllOf(HasSubstr("beta has shape (2)"), HasSubstr("1 or H = 3")));
  EXPECT_THAT(refusal("softmax+bn", give("beta", {3, 1})), HasSubstr("beta has shape (3,1)"));
  EXPECT_THAT(refusal("softmax+bn", give("beta", {})), HasSubstr("beta has shape ()"));
  EXPECT_THAT(refusal("softmax+conv1d(3)", give("kernel", {3, 5})), HasSubstr("kernel has shape (3,5)"));
  EXPECT_THAT(refusal("softmax+conv2d(3x3)", give("kernel", {3, 9})), HasSubstr("kernel has shape (3,9)"));
  EXPECT_THAT(refusal("softmax+bias", give("bias", {3, 6})), HasSubstr("bias has shape (3,6)"));
  // Shared or per head, whatever was declared.
  for (const Shape& shape : {Shape{1}, Shape{3}}) {
    Sample s = sample("softmax+bn", dims);
    s.parameters["beta"] = f64(shape);
    EXPECT_NO_THROW(validate(s.call()));
  }
}

// The declaration against the shapes of the call, with the reason.
TEST(CallErrors, DeclarationAgainstShapes) {
  const auto message = [](const std::string& text) {
    const Sample s = sample("softmax", dims);
    Call call = s.call();
    call.attention = parse(text);
    std::string what = message_of([&] { validate(call); });
    EXPECT_THAT(what, StartsWith("[" + text + "] "));
    return what;
  };
  EXPECT_THAT(message("softmax+sh(1,2)"),
              AllOf(HasSubstr("2 pooling factors"), HasSubstr("3 heads"), HasSubstr("its own regression")));
  EXPECT_THAT(message("softmax+sh(1,1,2,2)"), HasSubstr("4 pooling factors"));
  EXPECT_THAT(message("softmax+sh(pool=2d,grid=2x3)"), AllOf(HasSubstr("grid 2x3 has 6 cells"), HasSubstr("5 keys")));
  EXPECT_THAT(message("softmax+sh(pool=2d,grid=2x2)"), HasSubstr("4 cells but there are 5"));
  EXPECT_THAT(message("softmax+sh(pool=2d,prefix=6)"), AllOf(HasSubstr("prefix=6"), HasSubstr("only 5 keys")));
  EXPECT_THAT(message("softmax+conv2d(3x3,grid=2x4)"), AllOf(HasSubstr("8 cells"), HasSubstr("6 features")));
  EXPECT_THAT(message("softmax+conv2d(3x3,axis=token)"), AllOf(HasSubstr("one grid"), HasSubstr("N = 4 and M = 5")));
}

TEST(CallErrors, ViewsThatCannotBeRead) {
  const Sample s = sample("softmax", dims);
  Call call = s.call();
  call.k.stride.pop_back();
  EXPECT_THAT(message_of([&] { validate(call); }), HasSubstr("keys have 3 strides for 4 dimensions"));
  call = s.call();
  call.k.data = nullptr;
  EXPECT_THAT(message_of([&] { validate(call); }), AllOf(StartsWith("[softmax] "), HasSubstr("keys have no data")));
  const Sample bn = sample("softmax+bn", dims);
  call = bn.call();
  call.parameters["beta"].stride.clear();
  EXPECT_THAT(message_of([&] { validate(call); }), HasSubstr("0 strides for 1 dimensions"));
  call = bn.call();
  call.parameters["beta"].data = nullptr;
  EXPECT_THAT(message_of([&] { validate(call); }), HasSubstr("beta has no data"));
}

TEST(CallErrors, Outputs) {
  const Sample s = sample("softmax+sh(2,3,4)", dims);
  const Call call = s.call();
  const auto message = [](const Call& c, const Outputs& outputs) { return message_of([&] { validate(c, outputs); }); };
  const Tensor y = f64({2, 3, 4, 7}), weights = f64({2, 3, 4, 3}), lse = f64({2, 3, 4}), sums = f64({2, 3, 3});
  EXPECT_NO_THROW(validate(call, Outputs{y.view(), weights.view(), lse.view(), sums.view()}));
  EXPECT_EQ(weight_columns(call.attention, dims), 3);
  EXPECT_THAT(message(call, {f64({2, 3, 5, 7}).view(), {}, {}, {}}),
              AllOf(StartsWith("[softmax+sh(2,3,4)] "), HasSubstr("y has shape (2,3,5,7)"), HasSubstr("(2,3,4,7)")));
  EXPECT_THAT(message(call, Outputs{}), HasSubstr("y has shape ()"));
  EXPECT_THAT(message(call, {Tensor(DType::i32, {2, 3, 4, 7}).view(), {}, {}, {}}), HasSubstr("y has dtype i32"));
  EXPECT_THAT(message(call, {y.view(), f64({2, 3, 4, 5}).view(), {}, {}}), HasSubstr("(B,H,N,K) = (2,3,4,3)"));
  EXPECT_THAT(message(call, {y.view(), {}, f64({2, 3, 5}).view(), {}}), HasSubstr("(B,H,N) = (2,3,4)"));
  EXPECT_THAT(message(call, {y.view(), {}, {}, f64({2, 3, 5}).view()}), HasSubstr("(B,H,K) = (2,3,3)"));
  const Tensor wrong(DType::u8, {2, 3, 4, 3});
  EXPECT_THAT(message(call, {y.view(), wrong.view(), {}, {}}), HasSubstr("weights has dtype u8"));
  for (const char* text : {"softmax+one", "dot", "poly(degree=3)+sum"}) {
    const Sample other = sample(text, dims);
    EXPECT_THAT(message(other.call(), {y.view(), {}, lse.view(), {}}), HasSubstr("log-sum-exp exists only")) << text;
  }
}

TEST(CallErrors, Gradients) {
  const Sample s = sample("softmax+bn(learn=head)+residual", dims);
  const Call call = s.call();
  const Tensor dy = f64({2, 3, 4, 7}), wrong = f64({2, 3, 4, 5}), whole(DType::i64, {2, 3, 4, 6});
  const auto message = [&](const std::function<void(saddle::primal::Gradients&)>& spoil) {
    saddle::primal::Gradients g;
    g.dy = dy.view();
    EXPECT_NO_THROW(validate(call, g));
    spoil(g);
    return message_of([&] { validate(call, g); });
  };
  EXPECT_THAT(message([&](auto& g) { g.dy = wrong.view(); }),
              AllOf(StartsWith("[softmax+bn"), HasSubstr("dy has shape")));
  EXPECT_THAT(message([&](auto& g) { g.dy = {}; }), HasSubstr("dy has shape ()"));
  EXPECT_THAT(message([&](auto& g) { g.dq = wrong.view(); }), AllOf(HasSubstr("dq has"), HasSubstr("(2,3,4,6)")));
  EXPECT_THAT(message([&](auto& g) { g.dk = wrong.view(); }), AllOf(HasSubstr("dk has"), HasSubstr("(2,3,5,6)")));
  EXPECT_THAT(message([&](auto& g) { g.dv = wrong.view(); }), AllOf(HasSubstr("dv has"), HasSubstr("(2,3,5,7)")));
  EXPECT_THAT(message([&](auto& g) { g.dskip = wrong.view(); }), HasSubstr("dskip has"));
  EXPECT_THAT(message([&](auto& g) { g.dq = whole.view(); }), HasSubstr("dq has dtype i64"));
  EXPECT_THAT(message([&](auto& g) { g.parameters["gamma"] = wrong.view(); }), HasSubstr("'gamma' is not part"));
  const Tensor shared = f64({1});
  EXPECT_THAT(message([&](auto& g) { g.parameters["beta"] = shared.view(); }),
              AllOf(HasSubstr("gradient of beta has shape (1)"), HasSubstr("(3)")));
}

// Empty sequences are legal: nothing to compute, nothing to read.
TEST(Call, EmptySequences) {
  for (const char* text : {"softmax+bias+residual+padding+explicit", "linear(elu1)+bn+sh(1,2,3)", "softmax+bn+causal"})
    for (const Dims& empty : {Dims{2, 3, 0, 5, 6, 7}, Dims{2, 3, 4, 0, 6, 7}, Dims{2, 3, 0, 0, 6, 7}}) {
      Sample s = sample(text, empty);
      s.key_mask = Tensor(DType::u8, {empty.B, empty.M});
      s.mask = Tensor(DType::u8, {empty.B, empty.H, empty.N, empty.M});
      const Tensor y = run(s);
      EXPECT_EQ(y.size(), 2 * 3 * empty.N * 7);
      for (const auto& [name, gradient] : gradients(s, cotangent(y)))
        for (Index i = 0; i < gradient.size(); ++i) ASSERT_FALSE(std::isnan(gradient.at(i))) << name;
    }
}

}  // namespace
}  // namespace saddle::primal
