// saddle check-golden: passes on what was recorded, fails on anything else.
#include <gmock/gmock.h>

#include "places.hpp"
#include "process.hpp"
#include "saddle/io/safetensors.hpp"

namespace saddle::e2e {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class CheckGolden : public CommandLine {
 protected:
  static TensorFile recorded() {
    return io::read_safetensors(fs::path(SADDLE_SOURCE_DIR) / "tests/golden/softmax/basic.safetensors");
  }
};

TEST_F(CheckGolden, PassesOnTheRecordedCases) {
  const Result result = sh("saddle check-golden tests/golden");
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("PASS  softmax/"));
  EXPECT_THAT(result.out, HasSubstr("worst relative error"));
  EXPECT_THAT(result.out, HasSubstr(" passed, 0 failed"));
}

// Where the torch part is built, its operators and modules are checked too; saddle alone checks what it has.
TEST_F(CheckGolden, RunsOperatorsAndModulesWhereTheyAreBuilt) {
  const bool built = has_training();
  const auto runs = [&](const std::string& name, const std::string& implementation) {
    const Result result = sh("saddle check-golden tests/golden/" + name + ".safetensors");
    EXPECT_EQ(result.code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("reference "));
    EXPECT_EQ(result.out.find(implementation + " ") != std::string::npos, built) << result.out;
  };
  runs("softmax/basic", "operator");
  for (const char* name : {"softmax/layer", "cat/qv_masked", "primal-attention/uea_1", "ssa/spikformer_eval",
                           "time-attention/mercer_class_last", "npt/model_mixed_n7"})
    runs(name, "module");
}

TEST_F(CheckGolden, OneWrongNumberIsAMiss) {
  for (const char* tensor : {"out.y", "grad.k"}) {
    TensorFile golden = recorded();
    Tensor& y = golden.tensors.at(tensor);
    y.set(3, y.at(3) + 1e-6);
    io::write_safetensors(folder / "work/wrong.safetensors", golden);
    const Result result = sh("saddle check-golden wrong.safetensors tests/golden/softmax");
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.out, HasSubstr("FAIL  softmax/basic"));
    EXPECT_THAT(result.out, HasSubstr(tensor));
    EXPECT_THAT(result.out, HasSubstr(" passed, 1 failed"));
  }
}

TEST_F(CheckGolden, UnreadableCasesAreMisses) {
  write_file(folder / "work/short.safetensors", "not a tensor file");
  const Result result = sh("saddle check-golden short.safetensors");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("FAIL  short.safetensors"));
  EXPECT_THAT(result.out, HasSubstr("0 passed, 1 failed"));
}

// Whatever is wrong with a case is said, and the others are still checked.
TEST_F(CheckGolden, MalformedCasesAreMisses) {
  const auto expect_miss = [&](const std::string& name, const TensorFile& golden, const std::string& problem) {
    io::write_safetensors(folder / ("work/" + name + ".safetensors"), golden);
    const Result result = sh("saddle check-golden " + name + ".safetensors tests/golden/softmax/basic.safetensors");
    EXPECT_EQ(result.code, 1) << name << result.err;
    EXPECT_THAT(result.out, HasSubstr(problem)) << name;
    EXPECT_THAT(result.out, HasSubstr("1 passed, 1 failed")) << name;
  };
  TensorFile flat = io::read_safetensors(fs::path(SADDLE_SOURCE_DIR) / "tests/golden/sparse/local.safetensors");
  flat.tensors["in.mask"] = Tensor(DType::u8, {4, 4});
  expect_miss("flat", flat, "in.mask has shape");
  TensorFile words = io::read_safetensors(fs::path(SADDLE_SOURCE_DIR) / "tests/golden/attention-sh/even.safetensors");
  words.metadata["scales"] = "[\"one\", 2]";
  expect_miss("words", words, "whole numbers");
}

TEST_F(CheckGolden, TheRegressionRunsInDouble) {
  const Result result = sh("saddle check-golden tests/golden/svr --dtype f32");
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(result.out, HasSubstr("f64 only"));
  EXPECT_THAT(sh("saddle check-golden --help").out, HasSubstr("bf16"));
}

TEST_F(CheckGolden, NothingFoundIsAMiss) {
  const Result result = sh("mkdir empty; saddle check-golden empty");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("found no *.safetensors below empty"));
}

TEST_F(CheckGolden, UnknownMechanisms) {
  TensorFile golden = recorded();
  golden.metadata["mechanism"] = "attention-of-tomorrow";
  io::write_safetensors(folder / "work/tomorrow.safetensors", golden);
  const Result result = sh("saddle check-golden tomorrow.safetensors");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("unknown mechanism 'attention-of-tomorrow', known are"));
  EXPECT_THAT(result.out, HasSubstr("softmax"));
  const Result skipped = sh("saddle check-golden --skip-unknown tomorrow.safetensors tests/golden/softmax");
  EXPECT_EQ(skipped.code, 0) << skipped.out;
  EXPECT_THAT(skipped.out, HasSubstr(", 0 failed, 1 skipped"));
  EXPECT_EQ(sh("saddle check-golden --skip-unknown tomorrow.safetensors").code, 1);
}

TEST_F(CheckGolden, Json) {
  const auto document = json("saddle check-golden tests/golden/softmax tests/golden/svr --json");
  EXPECT_EQ(document["schema"], "saddle.check-golden/1");
  EXPECT_EQ(document["failed"], 0);
  EXPECT_EQ(document["passed"], document["cases"].size());
  EXPECT_LT(document["worst_error"], 1e-6);
}

}  // namespace
}  // namespace saddle::e2e
