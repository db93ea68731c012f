#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "saddle/base/parallel.hpp"
#include "saddle/kernels/dense/product.hpp"
#include "saddle/kernels/dense/sweeps.hpp"

namespace saddle::kernels::dense {
namespace {

std::vector<float> random(Index count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(count));
  // bfloat16 holds them exactly, so that both kinds of product have the same exact result.
  for (float& v : x) v = static_cast<float>(BFloat16(normal(generator)));
  return x;
}

double gelu(double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double gelu_slope(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-x * x / 2) * 0.3989422804014327;
}

struct Layer {
  Index M, I, O;
  std::vector<float> x = random(M * I, 1), w = random(O * I, 2), b = random(O, 3), dy = random(M * O, 4);

  double y(Index m, Index o) const {
    double sum = b[o];
    for (Index i = 0; i < I; ++i) sum += double{x[m * I + i]} * w[o * I + i];
    return sum;
  }
  double dx(Index m, Index i) const {
    double sum = 0;
    for (Index o = 0; o < O; ++o) sum += double{dy[m * O + o]} * w[o * I + i];
    return sum;
  }
  double dw(Index o, Index i) const {
    double sum = 0;
    for (Index m = 0; m < M; ++m) sum += double{dy[m * O + o]} * x[m * I + i];
    return sum;
  }
};

// Relative to the size that a sum of `depth` terms has.
template <class F>
void expect_near(const std::vector<float>& found, Index rows, Index columns, Index depth, F&& exact) {
  const double tolerance = 2e-6 * (1 + std::sqrt(static_cast<double>(depth)));
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < columns; ++c) ASSERT_NEAR(found[r * columns + c], exact(r, c), tolerance) << r << " " << c;
}

template <class Input, class T>
void check_layer(const Layer& layer, const Input& x, const Input& dy, PackedWeight<T> packed) {
  const Index M = layer.M, I = layer.I, O = layer.O;
  std::vector<float> y(layer.dy.size()), slope(y.size()), dx(layer.x.size()), dw(layer.w.size()), db(layer.b.size());
  packed.pack(Side::output, {layer.w.data(), I}, O, I);
  multiply(x, M, packed, Finish<float>{layer.b.data(), {}, {slope.data(), O}, {y.data(), O}, Activation::gelu});
  expect_near(slope, M, O, I, [&](Index m, Index o) { return gelu_slope(layer.y(m, o)); });
  expect_near(y, M, O, I, [&](Index m, Index o) { return gelu(layer.y(m, o)); });
  packed.pack(Side::input, {layer.w.data(), I}, O, I);
  multiply(dy, M, packed, Finish<float>{nullptr, {}, {}, {dx.data(), I}, Activation::none});
  expect_near(dx, M, I, O, [&](Index m, Index i) { return layer.dx(m, i); });
  // The columns of dx as if a gelu had kept them.
  std::vector<float> kept(layer.x), times(layer.x.size());
  multiply(dy, M, packed, Finish<float>{nullptr, {}, {kept.data(), I}, {times.data(), I}, Activation::times_slope});
  expect_near(times, M, I, O, [&](Index m, Index i) { return layer.dx(m, i) * layer.x[m * I + i]; });
  weight_gradient(dy, x, M, O, I, {dw.data(), I}, db.data());
  expect_near(dw, O, I, M, [&](Index o, Index i) { return layer.dw(o, i); });
  expect_near(db, 1, O, M, [&](Index, Index o) {
    double sum = 0;
    for (Index m = 0; m < M; ++m) sum += layer.dy[m * O + o];
    return sum;
  });
}

TEST(Dense, ProductsOfALayer) {
  for (const Index M : {1, 3, 17, 65, 130})
    for (const Index I : {1, 17, 65, 100})
      for (const Index O : {1, 3, 33, 70}) {
        const Layer layer{M, I, O};
        check_layer(layer, Rows<const float>{layer.x.data(), I}, Rows<const float>{layer.dy.data(), O},
                    PackedWeight<float>());
        if (!has_bf16_products()) continue;
        check_layer(layer, AmxRows{{}, {layer.x.data(), I}}, AmxRows{{}, {layer.dy.data(), O}},
                    PackedWeight<BFloat16>());
      }
}

// More rows than are packed at once.
TEST(Dense, ManyRows) {
  const Layer layer{4500, 5, 3};
  check_layer(layer, Rows<const float>{layer.x.data(), 5}, Rows<const float>{layer.dy.data(), 3},
              PackedWeight<float>());
  if (has_bf16_products())
    check_layer(layer, AmxRows{{}, {layer.x.data(), 5}}, AmxRows{{}, {layer.dy.data(), 3}}, PackedWeight<BFloat16>());
}

TEST(Dense, GeluIsAccurateInItsTail) {
  std::vector<float> x, y, one{1};
  for (float v = -8; v < 8; v += 1.0f / 64) x.push_back(v);
  y.resize(x.size());
  PackedWeight<float> packed;
  packed.pack(Side::output, {one.data(), 1}, 1, 1);
  multiply(Rows<const float>{x.data(), 1}, static_cast<Index>(x.size()), packed,
           Finish<float>{nullptr, {}, {}, {y.data(), 1}, Activation::gelu});
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(y[i], gelu(x[i]), 5e-6 * std::fabs(gelu(x[i])) + 1e-30) << x[i];
}

// What becomes bfloat16 need not be more accurate than that: value and slope against double, at arguments that bfloat16
// holds.
TEST(Dense, GeluInBf16) {
  if (!has_bf16_products()) GTEST_SKIP() << "no products in bfloat16 here";
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x{inf, -inf, 1e30f, -1e30f, std::nanf("")}, one{1};
  for (float v = -8; v < 8; v += 1.0f / 32) x.push_back(v);
  const auto count = static_cast<Index>(x.size());
  std::vector<BFloat16> y(x.size()), slope(x.size());
  PackedWeight<BFloat16> packed;
  packed.pack(Side::output, {one.data(), 1}, 1, 1);
  multiply(AmxRows{{}, {x.data(), 1}}, count, packed,
           Finish<BFloat16>{nullptr, {}, {slope.data(), 1}, {y.data(), 1}, Activation::gelu});
  const auto value = [](BFloat16 v) { return static_cast<double>(static_cast<float>(v)); };
  EXPECT_EQ(value(y[0]), inf);
  EXPECT_EQ(value(y[1]), 0);
  EXPECT_NEAR(value(y[2]), 1e30, 1e30 / 256);
  EXPECT_EQ(value(y[3]), 0);
  EXPECT_TRUE(std::isnan(value(y[4])) && std::isnan(value(slope[4])));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(value(slope[i]), x[i] > 0 ? 1 : 0) << x[i];
  constexpr double rounding = 1.0 / 256;  // half a unit of the last place, relative
  for (std::size_t i = 5; i < x.size(); ++i) {
    EXPECT_NEAR(value(y[i]), gelu(x[i]), 1.1e-4 * std::fabs(x[i]) + rounding * std::fabs(gelu(x[i]))) << x[i];
    EXPECT_NEAR(value(slope[i]), gelu_slope(x[i]), 5.2e-4 + rounding * std::fabs(gelu_slope(x[i]))) << x[i];
  }
}

}  // namespace
}  // namespace saddle::kernels::dense
