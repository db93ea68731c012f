// RPC-Attention: what its options mean, seen from outside.
#include "saddle/mechanisms/rpc_attention/rpc_attention.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "places.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"
#include "saddle/io/safetensors.hpp"

namespace saddle::mechanisms::rpc_attention {
namespace {

tape::Value normal(Shape shape, std::string_view name, double scale = 1) {
  std::vector<double> data(static_cast<std::size_t>(element_count(shape)));
  Stream stream(3, name);
  for (double& number : data) number = scale * stream.normal();
  return {std::move(shape), std::move(data)};
}

constexpr Index B = 2, N = 6, X = 8, H = 2;

LayerInputs inputs_for(const Layer& layer) {
  const RpcAttention& rpc = layer.part<RpcAttention>();
  LayerInputs inputs;
  inputs.x = normal({B, N, X}, "x");
  inputs.place.X = X;
  inputs.place.H = H;
  inputs.place.N = N;
  const Index parts = rpc.scaled() ? 3 : 2;
  inputs.weights = {{"qkv.weight", normal({parts * X, X}, "qkv.weight", 0.5)},
                    {"qkv.bias", normal({parts * X}, "qkv.bias", 0.5)},
                    {"proj.weight", normal({X, X}, "proj.weight", 0.5)},
                    {"proj.bias", normal({X}, "proj.bias", 0.5)}};
  if (rpc.variant == Variant::scaled_s) inputs.weights["s"] = normal({H, N, N}, "s", 0.5);
  if (rpc.variant == Variant::scaled_alpha) inputs.weights["s"] = normal({1}, "s");
  return inputs;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
  return largest;
}

std::vector<double> y_of(const std::string& text) {
  const LayerPtr rpc = find_layer(text);
  return rpc->reference(inputs_for(*rpc)).at("y").data();
}

const char* const variants[] = {"rpc_attention(num_iter=3,lambda=0.7", "rpc_attention(variant=sym",
                                "rpc_attention(variant=scaled_s", "rpc_attention(variant=scaled_alpha"};

TEST(RpcAttention, RunsThePursuitInItsLayerAlone) {
  const auto plain = y_of("rpc_attention(variant=sym)");
  EXPECT_EQ(difference(y_of("rpc_attention(layer=1)"), plain), 0);
  EXPECT_GT(difference(y_of("rpc_attention(layer=0)"), plain), 1e-3);
  EXPECT_EQ(difference(y_of("rpc_attention(layer=-1)"), y_of("rpc_attention(layer=0)")), 0);
}

TEST(RpcAttention, OnePassClipsTheKeys) {
  const auto plain = y_of("rpc_attention(variant=sym)");
  EXPECT_LT(difference(y_of("rpc_attention(num_iter=1,lambda=1000000)"), plain), 1e-12);
  EXPECT_GT(difference(y_of("rpc_attention(num_iter=1,lambda=0.1)"), plain), 1e-3);
  // Keys clipped to nothing are all alike: every token gets the mean value.
  const LayerPtr rpc = find_layer("rpc_attention(num_iter=1,lambda=0)");
  const auto attn = rpc->reference(inputs_for(*rpc)).at("attn").data();
  for (const double weight : attn) EXPECT_NEAR(weight, 1.0 / N, 1e-15);
}

TEST(RpcAttention, ScaledVariantsBeginAsSoftmaxAttention) {
  for (const char* text : {"rpc_attention(variant=scaled_s)", "rpc_attention(variant=scaled_alpha)"}) {
    const LayerPtr rpc = find_layer(text);
    LayerInputs inputs = inputs_for(*rpc);
    const auto changed = rpc->reference(inputs).at("core").data();
    inputs.weights["s"] = tape::zeros(inputs.weights.at("s").shape());
    const LayerOutputs outputs = rpc->reference(inputs);
    const tape::Value qkv = tape::linear(inputs.x, inputs.weights.at("qkv.weight"), inputs.weights.at("qkv.bias"));
    const tape::Value v = tape::split_heads(tape::slice(qkv, 2, 2 * X, X), H);
    EXPECT_LT(difference(outputs.at("core").data(), tape::join_heads(tape::matmul(outputs.at("attn"), v)).data()),
              1e-12);
    EXPECT_GT(difference(outputs.at("core").data(), changed), 1e-3);
  }
}

// A later token moves: what stands before it must not.
TEST(RpcAttention, CausalMeansThatNothingOfLaterTokensIsSeen) {
  for (const std::string variant : variants) {
    const LayerPtr rpc = find_layer(variant + ",causal=true)");
    EXPECT_TRUE(rpc->causal());
    EXPECT_FALSE(find_layer(variant + ")")->causal());
    LayerInputs inputs = inputs_for(*rpc);
    const auto before = rpc->reference(inputs).at("y").data();
    auto moved = inputs.x.data();
    for (Index b = 0; b < B; ++b)
      for (Index c = 0; c < X; ++c) moved[(b * N + N - 2) * X + c] += 1;
    inputs.x = {{B, N, X}, moved};
    const auto after = rpc->reference(inputs).at("y").data();
    for (Index b = 0; b < B; ++b)
      for (Index i = 0; i < N; ++i) {
        double off = 0;
        for (Index c = 0; c < X; ++c)
          off = std::max(off, std::fabs(after[(b * N + i) * X + c] - before[(b * N + i) * X + c]));
        if (i < N - 2)
          EXPECT_EQ(off, 0) << variant << " token " << i;
        else
          EXPECT_GT(off, 0) << variant << " token " << i;
      }
  }
}

TEST(RpcAttention, OneMuForTheWholeSequenceIsNotCausal) {
  const LayerPtr rpc = find_layer("rpc_attention(lambda=0.7,mu_over=sequence,causal=true)");
  EXPECT_FALSE(rpc->causal());
  LayerInputs inputs = inputs_for(*rpc);
  const auto before = rpc->reference(inputs).at("y").data();
  auto moved = inputs.x.data();
  for (Index c = 0; c < X; ++c) moved[(N - 1) * X + c] += 1;
  inputs.x = {{B, N, X}, moved};
  // The first token sees itself alone, whatever its key; the second one has weights to change.
  EXPECT_NE(rpc->reference(inputs).at("y").data()[X], before[X]);
}

// Sequences padded at their end give what they give alone, and 0 behind.
TEST(RpcAttention, PaddingChangesNothing) {
  const Index kept = 4;
  for (const std::string variant : variants)
    for (const char* end : {")", ",causal=true)"}) {
      const LayerPtr rpc = find_layer(variant + end);
      LayerInputs inputs = inputs_for(*rpc);
      std::vector<double> mask(static_cast<std::size_t>(B * N), 1.0);
      for (Index b = 0; b < B; ++b) std::fill_n(mask.begin() + b * N + kept, N - kept, 0.0);
      inputs.key_mask = {{B, N}, mask};
      const tape::Value y = rpc->reference(inputs).at("y");
      LayerInputs alone = inputs_for(*rpc);
      alone.x = tape::slice(alone.x, 1, 0, kept);
      EXPECT_LT(difference(tape::slice(y, 1, 0, kept).data(), rpc->reference(alone).at("y").data()), 1e-11) << variant;
      EXPECT_EQ(difference(tape::slice(y, 1, kept, N - kept).data(), std::vector<double>(B * (N - kept) * X, 0.0)), 0);
    }
}

TEST(RpcAttention, KeysOfZeroHaveNoOutliers) {
  const LayerPtr rpc = find_layer("rpc_attention");
  LayerInputs inputs = inputs_for(*rpc);
  inputs.x = tape::zeros({B, N, X});
  inputs.weights["qkv.bias"] = tape::zeros({2 * X});
  for (const double number : rpc->reference(inputs).at("y").data()) EXPECT_TRUE(std::isfinite(number));
}

TEST(RpcAttention, CostGrowsWithThePassesOfItsLayer) {
  LayerPlace place;
  place.X = 64;
  place.H = 4;
  place.N = 100;
  const auto work = [&](const char* text) {
    return find_layer(text)->cost(place, 1, primal::Pass::forward, DType::f32).multiply_adds;
  };
  const double plain = work("rpc_attention(variant=sym)"), pass = 2.0 * 100 * 100 * 64;
  EXPECT_NEAR(work("rpc_attention(num_iter=3)") - plain, 2 * pass, 0.05 * pass);
  EXPECT_EQ(work("rpc_attention(num_iter=3,layer=1)"), plain);
  place.index = 1;
  EXPECT_EQ(work("rpc_attention(num_iter=3)"), plain);
}

TEST(RpcAttention, SomeLayerOfAModelRunsThePursuit) {
  const auto refused = [](const std::vector<std::string>& layers) -> std::string {
    try {
      require_pursuit(layers);
    } catch (const InvalidArgument& error) {
      EXPECT_NE(error.hint().find("layer=-1"), std::string::npos);
      return error.what();
    }
    return "";
  };
  const std::string last = "rpc_attention(layer=-1)", sym = "rpc_attention(variant=sym,layer=7)";
  for (const std::vector<std::string>& layers : {std::vector<std::string>{"rpc_attention", "rpc_attention"},
                                                 {"softmax", last},
                                                 {"softmax", sym},
                                                 {"rpc_attention(layer=1)", "rpc_attention(layer=1)"},
                                                 {"rpc_attention", "rpc_attention(layer=7)"},
                                                 {"softmax", "cat"}})
    EXPECT_EQ(refused(layers), "") << layers[1];
  EXPECT_EQ(
      refused({"rpc_attention(layer=7)", "rpc_attention(layer=7)"}),
      "[rpc_attention] 'rpc_attention(layer=7)' runs its pursuit in layer 7, but it does not stand there: none of "
      "the 2 layers of this model, counted from 0, would run it");
  EXPECT_NE(refused({"softmax", "rpc_attention"}).find("in layer 0"), std::string::npos);
}

TEST(RpcAttention, SaysWhatItCannotBe) {
  LayerPlace place;
  place.X = 8;
  place.H = 2;
  for (const char* text : {"rpc_attention(num_iter=0)", "rpc_attention(lambda=-1)", "rpc_attention(layer=-2)",
                           "rpc_attention(variant=scaled_s)"})
    EXPECT_THROW(find_layer(text)->check(place), InvalidArgument) << text;
  place.H = 3;
  EXPECT_THROW(find_layer("rpc_attention")->check(place), InvalidArgument);
  EXPECT_THROW(find_layer("rpc_attention(threshold=mu)"), InvalidArgument);
  EXPECT_THROW(find_layer("rpc_attention+causal"), InvalidArgument);
  const LayerPtr rpc = find_layer("rpc_attention");
  LayerInputs inputs = inputs_for(*rpc);
  inputs.weights.erase("proj.weight");
  EXPECT_THROW(rpc->reference(inputs), InvalidArgument);
  inputs = inputs_for(*rpc);
  inputs.weights["qkv.weight"] = normal({3 * X, X}, "wrong");
  EXPECT_THROW(rpc->reference(inputs), InvalidArgument);
}

TEST(RpcAttention, GoldenCasesMustMakeSense) {
  const TensorFile golden =
      io::read_safetensors(SADDLE_SOURCE_DIR "/tests/golden/rpc-attention/padded_iter2.safetensors");
  ASSERT_TRUE(check_golden(golden, "case").passed());
  TensorFile wrong = golden;
  wrong.metadata["mask"] = "window";
  EXPECT_NE(check_golden(wrong, "case").problem.find("window"), std::string::npos);
  wrong = golden;
  wrong.tensors.erase("in.key_mask");
  EXPECT_NE(check_golden(wrong, "case").problem.find("in.key_mask"), std::string::npos);
  wrong = golden;
  wrong.metadata["threshold"] = "lambda_over_mu";
  EXPECT_FALSE(check_golden(wrong, "case").passed());
}

}  // namespace
}  // namespace saddle::mechanisms::rpc_attention
