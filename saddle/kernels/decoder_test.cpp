#include "saddle/kernels/decoder.hpp"

#include <gmock/gmock.h>

#include "saddle/primal/testing_internal.hpp"

namespace saddle::kernels {
namespace {

using primal::testing::error_of;
using primal::testing::message_of;
using primal::testing::Sample;
using primal::testing::sample;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Tokens [begin, begin + count) of a tensor [B,H,N,C].
TensorView tokens(const Tensor& tensor, Index begin, Index count) {
  TensorView view = tensor.view();
  if (!view) return view;
  view.data = static_cast<std::byte*>(view.data) + begin * view.stride[2] * static_cast<Index>(size_of(view.dtype));
  view.shape[2] = count;
  return view;
}

Decoder decoder_of(const Sample& s) {
  const Dims dims = s.dims();
  return {s.attention, dims.B, dims.H, dims.D, dims.E, s.q.dtype(), s.call().parameters};
}

void feed(Decoder& decoder, const Sample& s, Index begin, Index count, Tensor& y) {
  const auto run = [&](auto method) {
    (decoder.*method)(tokens(s.q, begin, count), tokens(s.k, begin, count), tokens(s.v, begin, count),
                      tokens(y, begin, count), tokens(s.skip, begin, count));
  };
  count == 1 ? run(&Decoder::step) : run(&Decoder::prefill);
}

const std::vector<const char*> attentions{"linear(elu1)+causal",          "linear(relu)+sum(den_eps=0.1)+causal",
                                          "linear(taylor)+causal",        "linear(random,count=10)+l2+causal",
                                          "dot+constant(3)+causal",       "poly+one+bias+residual+causal",
                                          "linear(elu1)+conv1d(3)+causal"};

TEST(Decoder, StepsAreTheRowsOfTheCausalPass) {
  for (const char* text : attentions) {
    const Sample s = sample(text, {2, 3, 20, 20, 5, 7});
    const Tensor expected = run(s, primal::reference_forward);
    Decoder decoder = decoder_of(s);
    Tensor y(DType::f64, expected.shape());
    for (Index i = 0; i < 20; ++i) feed(decoder, s, i, 1, y);
    EXPECT_LT(error_of(y, expected), 1e-11) << text;
    EXPECT_EQ(decoder.length(), 20);
  }
}

TEST(Decoder, PrefillThenSteps) {
  for (const char* text : attentions) {
    const Sample s = sample(text, {1, 2, 150, 150, 5, 7});
    const Tensor expected = run(s, primal::primal_forward);
    Decoder decoder = decoder_of(s);
    Tensor y(DType::f64, expected.shape());
    feed(decoder, s, 0, 100, y);
    for (Index i = 100; i < 130; ++i) feed(decoder, s, i, 1, y);
    feed(decoder, s, 130, 20, y);
    EXPECT_LT(error_of(y, expected), 1e-11) << text;
    decoder.reset();
    EXPECT_EQ(decoder.length(), 0);
    feed(decoder, s, 0, 150, y);
    EXPECT_LT(error_of(y, expected), 1e-11) << text;
  }
}

TEST(Decoder, StateCanBeSavedAndBranched) {
  const Sample s = sample("linear(elu1)+causal", {1, 2, 30, 30, 5, 7});
  Decoder first = decoder_of(s), second = decoder_of(s);
  Tensor y(DType::f64, s.v.shape()), again = y;
  feed(first, s, 0, 20, y);
  const Decoder::State state = first.state();
  EXPECT_EQ(state.w.shape(), (saddle::Shape{1, 2, 5, 7}));
  EXPECT_EQ(state.z.shape(), (saddle::Shape{1, 2, 5}));
  EXPECT_EQ(state.length, 20);
  second.set_state(state);
  EXPECT_EQ(second.length(), 20);
  for (Index i = 20; i < 30; ++i) {
    feed(first, s, i, 1, y);
    feed(second, s, i, 1, again);
  }
  for (Index h = 0; h < 2; ++h)
    for (Index c = 20 * 7; c < 30 * 7; ++c) EXPECT_EQ(y.at(h * 210 + c), again.at(h * 210 + c));
  Decoder::State wrong = state;
  wrong.z = Tensor(DType::f32, wrong.z.shape());
  EXPECT_THAT(message_of([&] { second.set_state(wrong); }), HasSubstr("state z is f32"));
}

TEST(Decoder, SaysWhyThereIsNoState) {
  const auto refusal = [](const char* text) {
    const auto list = decoder_refusals(primal::parse(text), 4);
    return list.empty() ? "" : list.front();
  };
  EXPECT_THAT(decoder_refusals(primal::parse("linear(elu1)+l2+causal"), 4), IsEmpty());
  EXPECT_THAT(refusal("softmax+causal"), HasSubstr("infinite"));
  EXPECT_THAT(refusal("linear(elu1)"), HasSubstr("later keys"));
  EXPECT_THAT(refusal("linear(elu1)+sh(2)+causal"), HasSubstr("pooled key"));
  EXPECT_THAT(refusal("linear(elu1)+bn+causal"), HasSubstr("per-query statistics"));
  EXPECT_THAT(refusal("linear(elu1)+bn(stats=global,leak=allow)+causal"), HasSubstr("every key"));
  EXPECT_THAT(refusal("linear(elu1)+conv1d(3,axis=token,leak=allow)+causal"), HasSubstr("convolution over tokens"));
  EXPECT_THAT(refusal("linear(elu1)+sqrt_length+causal"), HasSubstr("last token"));
  EXPECT_THROW(Decoder(primal::parse("softmax+causal"), 1, 1, 4, 4), NotSupported);
}

TEST(Decoder, ChecksWhatItIsGiven) {
  const Sample s = sample("linear(elu1)+causal", {1, 2, 4, 4, 5, 7});
  Decoder decoder = decoder_of(s);
  Tensor y(DType::f64, s.v.shape());
  EXPECT_THAT(message_of([&] { decoder.step(s.q.view(), s.k.view(), s.v.view(), y.view()); }), HasSubstr("prefill"));
  EXPECT_THAT(message_of([&] { decoder.prefill(s.k.view(), s.k.view(), s.k.view(), s.k.view()); }),
              HasSubstr("the decoder expects"));
  Decoder other(s.attention, 1, 2, 5, 7, DType::f32);
  EXPECT_THAT(message_of([&] { feed(other, s, 0, 4, y); }), HasSubstr("made for f32"));
  const auto refusal = [&](DType dtype, const std::map<std::string, TensorView>& parameters) {
    return message_of([&] { Decoder(primal::parse("linear(elu1)+causal+bias"), 1, 2, 5, 7, dtype, parameters); });
  };
  const Tensor bias(DType::f32, {2, 6});
  EXPECT_THAT(refusal(DType::i32, {}), HasSubstr("i32"));
  EXPECT_THAT(refusal(DType::f32, {{"nosuch", bias.view()}}), HasSubstr("parameter 'nosuch'"));
  EXPECT_THAT(refusal(DType::f32, {{"bias", bias.view()}}), HasSubstr("bias"));
}

}  // namespace
}  // namespace saddle::kernels
