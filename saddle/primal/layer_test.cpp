#include "saddle/primal/layer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saddle/primal/testing_internal.hpp"

namespace saddle::primal {
namespace {

using namespace testing;
using ::testing::HasSubstr;

struct Sizes {
  Index B = 2, N = 4, X = 3, H = 2, D = 2, E = 2;
};

// A layer with random weights, biases and parameters of its attention.
Layer random_layer(const std::string& text, const Sizes& s, bool biases = true) {
  Stream stream(11, "layer");
  Layer layer{parse(text), s.H, {}};
  layer.parameters["wq"] = random_tensor({s.H * s.D, s.X}, stream);
  layer.parameters["wk"] = random_tensor({s.H * s.D, s.X}, stream);
  layer.parameters["wv"] = random_tensor({s.H * s.E, s.X}, stream);
  layer.parameters["wo"] = random_tensor({s.X, s.H * s.E}, stream);
  if (biases) {
    layer.parameters["bq"] = random_tensor({s.H * s.D}, stream);
    layer.parameters["bk"] = random_tensor({s.H * s.D}, stream);
    layer.parameters["bv"] = random_tensor({s.H * s.E}, stream);
    layer.parameters["bo"] = random_tensor({s.X}, stream);
  }
  for (const ParameterInfo& info : parameters(layer.attention, {s.B, s.H, s.N, s.N, s.D, s.E}))
    layer.parameters[info.name] = random_tensor(info.shape, stream, 0.5);
  return layer;
}

Tensor random_input(const Sizes& s) {
  Stream stream(12, "input");
  return random_tensor({s.B, s.N, s.X}, stream);
}

Tensor padding(const Sizes& s) {
  Tensor mask(DType::u8, {s.B, s.N});
  for (Index i = 0; i < mask.size(); ++i) mask.set(i, i != s.N - 1 && i != s.N + 1);
  return mask;
}

TEST(Layer, GradientsEqualDifferences) {
  const OneThread one_thread;
  const Sizes sizes;
  for (const char* text :
       {"softmax", "softmax+residual", "softmax+bn(scale=std,learn=head)+sh(1,2)", "linear(elu1)+causal+residual",
        "softmax+conv1d(3,axis=token)", "rbf+window(1)+bias", "softmax+bn+sh(2,3)+causal+bias+residual"})
    for (bool masked : {false, true}) {
      Layer layer = random_layer(text, sizes, !masked);
      Tensor x = random_input(sizes);
      const Tensor keep = masked ? padding(sizes) : Tensor();
      const Tensor dy = cotangent(x);
      const auto value = [&] { return dot(dy, layer_forward(layer, x, keep.view(), {}).y); };
      const auto exact = layer_backward(layer, x, keep.view(), {}, dy);
      EXPECT_EQ(exact.size(), layer.parameters.size() + 1);
      EXPECT_LT(error_of(exact.at("x"), differences(x, value)), 1e-6) << text;
      for (auto& [name, parameter] : layer.parameters)
        EXPECT_LT(error_of(exact.at(name), differences(parameter, value)), 1e-6) << text << ", " << name;
    }
}

// Head s owns rows s*D .. (s+1)*D-1 of the projections; y = concat(heads) wo^T + bo. Written out for one query.
TEST(Layer, IsProjectionsHeadsAndOutputProjection) {
  const Sizes s{1, 3, 4, 2, 3, 2};
  const Layer layer = random_layer("softmax", s);
  const Tensor x = random_input(s);
  const auto p = [&](const char* name, Index i) { return layer.parameters.at(name).at(i); };
  const auto project = [&](const char* w, const char* b, Index row, Index token) {
    double sum = p(b, row);
    for (Index c = 0; c < s.X; ++c) sum += p(w, row * s.X + c) * x.at(token * s.X + c);
    return sum;
  };
  const LayerForward result = layer_forward(layer, x, {}, {});
  for (Index i = 0; i < s.N; ++i) {
    std::vector<double> y(4);
    for (Index o = 0; o < s.X; ++o) y[o] = p("bo", o);
    for (Index h = 0; h < s.H; ++h) {
      std::vector<double> weight(3);
      double total = 0;
      for (Index j = 0; j < s.N; ++j) {
        double score = 0;
        for (Index d = 0; d < s.D; ++d)
          score += project("wq", "bq", h * s.D + d, i) * project("wk", "bk", h * s.D + d, j);
        total += weight[j] = std::exp(score / std::sqrt(3.0));
      }
      for (Index e = 0; e < s.E; ++e) {
        double head = 0;
        for (Index j = 0; j < s.N; ++j) head += weight[j] / total * project("wv", "bv", h * s.E + e, j);
        EXPECT_NEAR(result.heads.at((h * s.N + i) * s.E + e), head, 1e-12);
        for (Index o = 0; o < s.X; ++o) y[o] += p("wo", o * s.H * s.E + h * s.E + e) * head;
      }
    }
    for (Index o = 0; o < s.X; ++o) EXPECT_NEAR(result.y.at(i * s.X + o), y[o], 1e-12);
  }
}

TEST(Layer, ResidualAddsTheInput) {
  const Sizes sizes;
  const Tensor x = random_input(sizes);
  const LayerForward plain = layer_forward(random_layer("softmax+bn", sizes), x, {}, {});
  const LayerForward residual = layer_forward(random_layer("softmax+bn+residual", sizes), x, {}, {});
  EXPECT_EQ(plain.heads, residual.heads);
  for (Index i = 0; i < x.size(); ++i) EXPECT_NEAR(residual.y.at(i), plain.y.at(i) + x.at(i), 1e-14);
}

// Property 6 of the specification of BN and SH: average pooling commutes with the affine projections.
TEST(Layer, PoolingTheInputEqualsPoolingKeysAndValues) {
  const Sizes s{2, 7, 3, 2, 2, 2};
  for (const char* tail : {"partial", "drop"}) {
    const std::string text = std::string("sh(1,3,tail=") + tail + ")";
    const Layer layer = random_layer("softmax+bn(scale=std)+" + text, s);
    const Tensor x = random_input(s);
    const Tensor heads = layer_forward(layer, x, {}, {}).heads;
    const Pooling pooling = *layer.attention.pooling;
    for (Index h = 0; h < s.H; ++h) {
      const Windows windows = pooling_windows(pooling, pooling.factors[h], s.N);
      const auto K = static_cast<Index>(windows.size());
      // One head: q from the tokens, k and v from the pooled tokens.
      Sample one;
      one.attention = parse("softmax+bn(scale=std)");
      one.q = Tensor(DType::f64, {s.B, 1, s.N, s.D});
      one.k = Tensor(DType::f64, {s.B, 1, K, s.D});
      one.v = Tensor(DType::f64, {s.B, 1, K, s.E});
      one.parameters["beta"] = layer.parameters.at("beta");
      for (Index b = 0; b < s.B; ++b) {
        Matrix tokens({s.N, s.X});
        for (Index i = 0; i < tokens.size(); ++i) tokens.data()[i] = x.at(b * s.N * s.X + i);
        const Matrix pooled = pool(windows, tokens, std::vector<std::uint8_t>(static_cast<std::size_t>(s.N), 1));
        const auto project = [&](const char* w, const char* bias, const Matrix& from, Tensor& to, Index width) {
          for (Index i = 0; i < from.shape()[0]; ++i)
            for (Index c = 0; c < width; ++c) {
              double sum = layer.parameters.at(bias).at(h * width + c);
              for (Index o = 0; o < s.X; ++o) sum += layer.parameters.at(w).at((h * width + c) * s.X + o) * from(i, o);
              to.set((b * from.shape()[0] + i) * width + c, sum);
            }
        };
        project("wq", "bq", tokens, one.q, s.D);
        project("wk", "bk", pooled, one.k, s.D);
        project("wv", "bv", pooled, one.v, s.E);
      }
      const Tensor y = run(one);
      for (Index b = 0; b < s.B; ++b)
        for (Index i = 0; i < s.N * s.E; ++i)
          EXPECT_NEAR(heads.at((b * s.H + h) * s.N * s.E + i), y.at(b * s.N * s.E + i), 1e-12) << text;
    }
  }
}

// Mean over unordered pairs of heads, batch and tokens of the distance between head outputs.
TEST(Layer, HeadDistance) {
  Tensor heads(DType::f64, {1, 3, 2, 2});
  const double values[] = {0, 0, 1, 1, 3, 4, 1, 1, 0, 0, 4, 5};  // heads at token 0: (0,0) (3,4) (0,0)
  for (Index i = 0; i < 12; ++i) heads.set(i, values[i]);
  EXPECT_NEAR(head_distance(heads), (5 + 0 + 5 + 0 + 5 + 5) / 6.0, 1e-15);
  EXPECT_EQ(head_distance(Tensor(DType::f64, {2, 1, 3, 2})), 0);
}

TEST(Layer, RunsThroughAnyKernel) {
  const Sizes sizes;
  const Layer layer = random_layer("linear(elu1)+causal+bn(stats=global,leak=allow)", sizes);
  const Tensor x = random_input(sizes), dy = cotangent(x);
  const LayerKernel primal{primal_forward, primal_backward};
  EXPECT_LT(error_of(layer_forward(layer, x, {}, {}, primal).y, layer_forward(layer, x, {}, {}).y), 1e-12);
  const auto expected = layer_backward(layer, x, {}, {}, dy), found = layer_backward(layer, x, {}, {}, dy, primal);
  for (const auto& [name, gradient] : expected) EXPECT_LT(error_of(found.at(name), gradient), 1e-11) << name;
}

TEST(Layer, RefusesWhatDoesNotFit) {
  const Sizes sizes;
  const Tensor x = random_input(sizes);
  const auto refusal = [&](const std::function<void(Layer&)>& spoil, const Tensor& input) {
    Layer layer = random_layer("softmax+bn", sizes);
    spoil(layer);
    std::string message = message_of([&] { layer_forward(layer, input, {}, {}); });
    EXPECT_THAT(message, HasSubstr("[softmax+bn]"));
    return message;
  };
  const auto keep = [](Layer&) {};
  const auto replace = [](const char* name, const Shape& shape) {
    return [=](Layer& layer) { layer.parameters[name] = Tensor(DType::f64, shape); };
  };
  EXPECT_THAT(refusal([](Layer& l) { l.parameters.erase("wk"); }, x), HasSubstr("no parameter 'wk'"));
  EXPECT_THAT(refusal(replace("wq", {5, 3}), x), HasSubstr("(5,3) but must be (a multiple of H = 2, X = 3)"));
  EXPECT_THAT(refusal(replace("wq", {4, 2}), x), HasSubstr("X = 3"));
  EXPECT_THAT(refusal(replace("wk", {6, 3}), x), HasSubstr("wk has shape (6,3) but must be that of wq"));
  EXPECT_THAT(refusal(replace("wv", {3, 3}), x), HasSubstr("wv has shape (3,3)"));
  EXPECT_THAT(refusal(replace("wo", {3, 5}), x), HasSubstr("wo has shape (3,5) but must be (3,4)"));
  EXPECT_THAT(refusal(replace("bq", {3}), x), HasSubstr("bq has shape (3) but must be (4)"));
  EXPECT_THAT(refusal(replace("bo", {3, 1}), x), HasSubstr("bo has shape (3,1) but must be (3)"));
  EXPECT_THAT(refusal(replace("beta", {3}), x), HasSubstr("beta has shape (3)"));
  EXPECT_THAT(refusal(replace("bta", {1}), x), HasSubstr("no use for a parameter 'bta', it takes wq, bq"));
  EXPECT_THAT(refusal([](Layer& l) { l.heads = 0; }, x), HasSubstr("H = 0"));
  EXPECT_THAT(refusal(keep, Tensor(DType::f64, {4, 3})), HasSubstr("(4,3) but must be (B,N,X)"));
  EXPECT_THAT(refusal(keep, Tensor(DType::f64, {0, 4, 3})), HasSubstr("(0,4,3)"));
  EXPECT_THAT(
      message_of([&] { layer_backward(random_layer("softmax+bn", sizes), x, {}, {}, Tensor(DType::f64, {2})); }),
      HasSubstr("dy has shape (2)"));
}

}  // namespace
}  // namespace saddle::primal
