// exp of scores at the edges of float, for every instruction set that this processor has.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "saddle/kernels/simd/exp_test.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

#include "saddle/kernels/simd/exp-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace saddle::kernels::HWY_NAMESPACE {

// t [n] -> 2^t, n a multiple of the lanes.
void exp2_floats(const float* t, float* y, std::size_t n) {
  const hn::ScalableTag<float> d;
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) hn::StoreU(exp2_float(d, hn::LoadU(d, t + i)), d, y + i);
}

}  // namespace saddle::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

#if HWY_ONCE

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "saddle/base/cpu.hpp"

namespace saddle::kernels {
namespace {

using Exp2 = void (*)(const float*, float*, std::size_t);

std::vector<float> values_of(Exp2 exp2, std::vector<float> t) {
  const std::size_t count = t.size();
  t.resize((count + 15) / 16 * 16);
  std::vector<float> y(t.size());
  exp2(t.data(), y.data(), t.size());
  y.resize(count);
  return y;
}

void check(Exp2 exp2) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> t;
  for (int i = 0; i <= 254 * 64; ++i) t.push_back(-126.0f + static_cast<float>(i) / 64);  // up to 128, exclusive
  t.pop_back();
  t.insert(t.end(), {127.99999f, -0.0f, 1e-30f, -1e-30f, -125.99999f});
  const std::vector<float> y = values_of(exp2, t);
  for (std::size_t i = 0; i < t.size(); ++i) {
    const double exact = std::exp2(static_cast<double>(t[i]));
    EXPECT_LT(std::abs(y[i] - exact) / exact, 2e-7) << t[i];
    if (t[i] == std::floor(t[i])) {
      EXPECT_EQ(y[i], exact) << t[i];
    }
  }
  for (const float high : {128.0f, 129.5f, 1e10f, 1e30f, infinity})
    EXPECT_EQ(values_of(exp2, {high})[0], infinity) << high;
  // Nothing that far below counts; where a set has no denormal numbers it is 0 from -126 on.
  for (const float low : {-151.0f, -1000.5f, -3e9f, -1e30f, -infinity})
    EXPECT_EQ(values_of(exp2, {low})[0], 0.0f) << low;
  for (const float low : {-126.5f, -127.0f, -127.75f, -149.0f}) {
    EXPECT_GE(values_of(exp2, {low})[0], 0.0f) << low;
    EXPECT_LT(values_of(exp2, {low})[0], 0x1p-126f) << low;
  }
  // NaN of any kind stays NaN.
  for (const std::uint32_t bits : {0x7fc00000u, 0x7fc00001u, 0xffc00000u, 0x7fffffffu, 0x7f800001u, 0xffffffffu})
    EXPECT_TRUE(std::isnan(values_of(exp2, {std::bit_cast<float>(bits)})[0])) << bits;
}

TEST(Exp2Float, OnAvx2) {
  if (best_isa() < Isa::avx2) GTEST_SKIP() << "no AVX2 on this processor";
  check(N_AVX2::exp2_floats);
}

TEST(Exp2Float, OnAvx512) {
  if (best_isa() < Isa::avx512) GTEST_SKIP() << "no AVX-512 on this processor";
  check(N_AVX3::exp2_floats);
}

}  // namespace
}  // namespace saddle::kernels

#endif
