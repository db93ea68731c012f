#include "saddle/kernels/rates.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "saddle/base/error.hpp"

namespace saddle::kernels {
namespace {

using testing::HasSubstr;

TEST(Rates, DefaultsGrowWithTheInstructionSet) {
  const Rates scalar = default_rates(Isa::scalar), avx2 = default_rates(Isa::avx2), amx = default_rates(Isa::amx);
  EXPECT_GT(avx2.fma_f32, scalar.fma_f32);
  EXPECT_GT(amx.fma_f32, avx2.fma_f32);
  EXPECT_EQ(avx2.amx_bf16, 0);
  EXPECT_GT(amx.amx_bf16, amx.fma_f32);
  EXPECT_FALSE(amx.calibrated);
}

TEST(Rates, SecondsAddArithmeticAndNeverBeatMemory) {
  Rates r = default_rates(Isa::avx512);
  r.fma_f32 = 1e9, r.exp_f32 = 1e8, r.bandwidth = 1e9, r.bandwidth_all = 1.5e9;
  r.efficiency[efficiency_key("tiled", DType::f32, false)] = 0.5;
  Work work{"tiled", DType::f32, false, 1e9, 1e8, 0, 1};
  EXPECT_DOUBLE_EQ(r.seconds(work), 4);
  work.threads = 2;
  EXPECT_DOUBLE_EQ(r.seconds(work), 2);
  work.bytes = 15e9;
  EXPECT_DOUBLE_EQ(r.seconds(work), 10);  // two threads share 1.5e9
}

TEST(Rates, TilesCountForTheImplementationThatUsesThem) {
  const Rates r = default_rates(Isa::amx);
  const Work tiles{"amx", DType::bf16, false, 1e12, 0, 0, 1}, vectors{"tiled", DType::bf16, false, 1e12, 0, 0, 1};
  EXPECT_LT(r.seconds(tiles), r.seconds(vectors) / 5);
}

TEST(Rates, EfficiencyFallsBackToTheNearestMeasurement) {
  Rates r;
  r.efficiency = {{"tiled f32 forward", 0.9}, {"tiled f64 forward", 0.8}};
  EXPECT_EQ(r.efficiency_of("tiled", DType::f64, true), 0.8);
  EXPECT_EQ(r.efficiency_of("tiled", DType::bf16, true), 0.9);
  EXPECT_GT(r.efficiency_of("other", DType::f32, false), 0);
}

TEST(Rates, RoundTripThroughJson) {
  Rates r = default_rates(Isa::amx);
  r.efficiency["tiled f32 forward"] = 0.87;
  r.calibrated = true;
  EXPECT_EQ(parse_rates(to_json(r)), r);
}

TEST(Rates, UnreadableCalibrationsSayWhy) {
  const auto problem = [](const std::string& text) {
    try {
      static_cast<void>(parse_rates(text));
      return std::string("accepted");
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
  };
  const std::string good = to_json(default_rates(Isa::avx2));
  EXPECT_THAT(problem("{"), HasSubstr("not a JSON object"));
  EXPECT_THAT(problem("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(problem(R"({"schema": "saddle.rates/2"})"), HasSubstr("schema"));
  std::string bad = good;
  bad.replace(bad.find("fma_f64"), 7, "fma_f65");
  EXPECT_THAT(problem(bad), HasSubstr("fma_f64"));
  Rates zero = default_rates(Isa::avx2);
  zero.bandwidth = 0;
  EXPECT_THAT(problem(to_json(zero)), HasSubstr("bandwidth"));
}

TEST(Rates, FileFollowsTheEnvironment) {
  const char* before = std::getenv("SADDLE_CACHE");
  const std::string saved = before == nullptr ? "" : before;
  setenv("SADDLE_CACHE", "/somewhere", 1);
  EXPECT_THAT(rates_file(Isa::avx2), testing::MatchesRegex("/somewhere/rates-[0-9a-f]+-avx2.json"));
  EXPECT_NE(rates_file(Isa::avx2), rates_file(Isa::amx));
  if (before == nullptr) {
    unsetenv("SADDLE_CACHE");
  } else {
    setenv("SADDLE_CACHE", saved.c_str(), 1);
  }
}

}  // namespace
}  // namespace saddle::kernels
