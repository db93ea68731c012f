#include "saddle/base/cpu.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "saddle/base/error.hpp"

namespace saddle {
namespace {

using testing::HasSubstr;

class MaxIsa : public testing::Test {
 protected:
  MaxIsa() {
    if (const char* old = std::getenv("SADDLE_MAX_ISA")) old_ = old;
    unsetenv("SADDLE_MAX_ISA");
  }
  ~MaxIsa() override {
    unsetenv("SADDLE_MAX_ISA");
    if (!old_.empty()) setenv("SADDLE_MAX_ISA", old_.c_str(), 1);
  }

 private:
  std::string old_;
};

TEST_F(MaxIsa, LowersButNeverRaises) {
  const Isa machine = best_isa();
  for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512, Isa::amx}) {
    setenv("SADDLE_MAX_ISA", to_string(isa), 1);
    EXPECT_EQ(best_isa(), std::min(isa, machine)) << to_string(isa);
  }
  setenv("SADDLE_MAX_ISA", "", 1);
  EXPECT_EQ(best_isa(), machine);
}

TEST_F(MaxIsa, WrongValueNamesTheChoices) {
  setenv("SADDLE_MAX_ISA", "avx3", 1);
  try {
    best_isa();
    FAIL() << "avx3 was accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("SADDLE_MAX_ISA=avx3"));
    for (const char* name : {"scalar", "avx2", "avx512", "amx"}) EXPECT_THAT(error.what(), HasSubstr(name));
  }
}

TEST(Isa, NamesRoundTrip) {
  for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512, Isa::amx}) EXPECT_EQ(parse_isa(to_string(isa)), isa);
  EXPECT_THROW(parse_isa("AVX2"), InvalidArgument);
}

TEST(Cpu, FeaturesIncludeWhatTheyBuildOn) {
  const Cpu& c = cpu();
  EXPECT_TRUE(c.avx2 || !c.avx512);
  EXPECT_TRUE(c.avx512 || !c.avx512_bf16);
  EXPECT_TRUE(c.amx_tile || !c.amx_bf16);
  EXPECT_GE(c.cores, 1);
  EXPECT_TRUE(c.amx_tile || !amx_permitted());
  EXPECT_EQ(amx_permitted(), amx_permitted());
}

// The kernel prints the same facts; it is the independent judge where it can be asked.
TEST(Cpu, AgreesWithTheKernel) {
  std::ifstream file("/proc/cpuinfo");
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  const auto at = all.find("\nflags");
  if (at == std::string::npos) GTEST_SKIP() << "/proc/cpuinfo names no flags";
  const std::string flags = all.substr(at + 1, all.find('\n', at + 1) - at - 1) + " ";
  const auto has = [&](const char* flag) {
    return flags.find(std::string(" ").append(flag).append(" ")) != std::string::npos;
  };
  EXPECT_EQ(cpu().sse4, has("sse4_1") && has("sse4_2"));
  EXPECT_EQ(cpu().avx2, has("avx2") && has("fma"));
  EXPECT_EQ(cpu().avx512, has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl"));
  EXPECT_EQ(cpu().avx512_bf16, has("avx512_bf16"));
  EXPECT_EQ(cpu().amx_bf16, has("amx_bf16") && has("amx_tile"));
  EXPECT_THAT(all, HasSubstr(cpu().vendor));
  EXPECT_THAT(all, HasSubstr(cpu().brand));
}

}  // namespace
}  // namespace saddle
