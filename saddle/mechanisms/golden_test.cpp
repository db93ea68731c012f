// Golden cases that are wrong in themselves: each becomes a problem in the report, none passes and none crashes.
#include "saddle/mechanisms/golden.hpp"

#include <gmock/gmock.h>

#include <functional>

#include "places.hpp"
#include "saddle/io/safetensors.hpp"

namespace saddle::mechanisms {
namespace {

using testing::HasSubstr;
using testing::Not;

TensorFile recorded(const std::string& name) {
  return io::read_safetensors(SADDLE_SOURCE_DIR "/tests/golden/" + name + ".safetensors");
}

Tensor converted(const Tensor& from, DType dtype) {
  Tensor to(dtype, from.shape());
  for (Index i = 0; i < from.size(); ++i) to.set(i, from.at(i));
  return to;
}

void erase(TensorFile& golden, const std::string& prefix) {
  std::erase_if(golden.tensors, [&](const auto& entry) { return entry.first.starts_with(prefix); });
}

struct Fault {
  std::string name;  // of the recorded case
  std::function<void(TensorFile&)> make;
  std::string problem;  // part of what the report says
};

std::function<void(TensorFile&)> set(const std::string& key, const std::string& value) {
  return [=](TensorFile& golden) { golden.metadata[key] = value; };
}

std::function<void(TensorFile&)> reshape(const std::string& name, const Shape& shape) {
  return [=](TensorFile& golden) { golden.tensors[name] = Tensor(golden.tensors.at(name).dtype(), shape); };
}

TEST(GoldenFault, BecomesAProblem) {
  const std::string sparse = "sparse/local", pooled = "attention-sh/even";
  const Fault faults[] = {
      {sparse, reshape("in.mask", {4, 4}), "in.mask has shape"},
      {sparse, reshape("in.mask", {}), "in.mask has shape"},
      {sparse, reshape("in.mask", {1, 1, 1, 1}), "in.mask has shape"},
      {sparse, reshape("in.q", {3}), "in.q has shape"},
      {sparse, reshape("in.v", {1, 1, 1, 1}), "shape"},
      {sparse, reshape("cot.y", {1, 2}), "shape"},
      {sparse, set("ctx", "0"), "ctx"},
      {sparse, set("ctx", "2.5"), "whole numbers"},
      {sparse, set("pattern", "spiral"), "'spiral'"},
      {pooled, set("scales", "[1, \"two\"]"), "whole numbers"},
      {pooled, set("scales", "[1.5, 2]"), "whole numbers"},
      {pooled, set("scales", "3"), "must be a list"},
      {pooled, set("scales", "[1e300, 2]"), "whole numbers"},
      {"softmax/basic", set("level", "basement"), "'level' has the unknown value 'basement'"},
      {"softmax/basic", set("causal", "yes"), "must be true or false, found 'yes'"},
      {"softmax/basic", set("causal", "TRUE"), "must be true or false"},
      {"softmax/basic", set("d_phi", "4"), "infinitely many features"},
      {"softmax/basic", [](TensorFile& golden) { erase(golden, "cot."); }, "no cot.y"},
      {"softmax/basic", [](TensorFile& golden) { erase(golden, "grad."); }, "no gradient"},
      {"softmax/basic", [](TensorFile& golden) { erase(golden, "out."); }, "no output"},
      {"softmax/basic", [](TensorFile& golden) { erase(golden, "in.k"); }, "no tensor 'in.k'"},
      {"softmax/basic", [](TensorFile& golden) { golden.tensors["out.heads"] = golden.tensors["out.y"]; },
       "nothing here computes out.heads"},
      {"softmax/basic", [](TensorFile& golden) { golden.tensors["out.w"] = golden.tensors["out.y"]; }, "primal form"},
      {"linear/basic", set("d_phi", "5"), "'d_phi' is 5"},
      {"attention-conv1d/f3", reshape("param.kernel", {}), "param.kernel has shape"},
      {"svr/rbf_bias", [](TensorFile& golden) { erase(golden, "out."); }, "no output"},
      {"svr/rbf_bias", [](TensorFile& golden) { golden.tensors["out.extra"] = golden.tensors["out.b"]; }, "out.extra"},
      {"svr/rbf_bias", [](TensorFile& golden) { golden.tensors["grad.k"] = golden.tensors["in.k"]; }, "grad.k"},
      {"svr/rbf_bias", set("h", "two"), "'h' has the unknown value 'two'"},
      {"svr/rbf_bias", set("transform", "fourier"), "'transform' has the unknown value 'fourier'"},
      {"svr/rbf_bias", set("kernel", "wave"), "'kernel' has the unknown value 'wave'"},
      {"svr/rbf_bias", set("bias", "2"), "must be true or false, found '2'"},
      {"svr/rbf_bias", set("C", "\"much\""), "must be a number"},
      {"svr/rbf_bias", reshape("in.x", {2, 17}), "widths must match"},
      {"svr/rbf_bias", reshape("in.y", {1}), "dimension"},
  };
  for (const Fault& fault : faults) {
    TensorFile golden = recorded(fault.name);
    ASSERT_TRUE(check_golden(golden, "").passed()) << fault.name;
    fault.make(golden);
    const GoldenReport report = check_golden(golden, "");
    EXPECT_FALSE(report.passed()) << fault.name << ": " << fault.problem;
    EXPECT_THAT(report.problem, HasSubstr(fault.problem)) << fault.name;
  }
}

// Whatever shape any tensor of a case takes, the check answers.
TEST(GoldenFault, AnyShapeIsSurvived) {
  for (const std::string name : {"sparse/local", "attention-sh/even", "attention-conv1d/f3", "linear/basic",
                                 "attention-sh/layer", "svr/rbf_bias"}) {
    const TensorFile golden = recorded(name);
    for (const auto& [tensor, value] : golden.tensors)
      for (const Shape& shape :
           {Shape{}, Shape{0}, Shape{3}, Shape{2, 3}, Shape{1, 2, 3}, Shape{1, 2, 3, 4}, Shape{0, 0, 0, 0}}) {
        if (shape == value.shape()) continue;
        TensorFile wrong = golden;
        reshape(tensor, shape)(wrong);
        EXPECT_FALSE(check_golden(wrong, "").passed()) << name << " " << tensor << " " << to_string(shape);
      }
  }
}

// A tensor that is missing is named, by its last word at least.
TEST(GoldenFault, AMissingTensorIsNamed) {
  for (const std::string name :
       {"mixed-attention/window2_h3_bias", "mixed-attention/window4_cross", "mixed-attention/block_window4_shift",
        "mixed-attention/block_cross_shift", "time-attention/mercer_next_item", "time-attention/mercer_class_last",
        "time-attention/bochner_two_heads", "time-mercer/code_1", "time-mercer/flex_1", "time-mercer/paper_1",
        "time-bochner/nonparametric_1", "time-bochner/invcdf_mlp_1", "hyla/softmax_hypatt_normalised",
        "cat/qkv_averaged_key", "cat-causal/causal_1", "primal-attention/uea_1", "rpc-attention/padded_iter2",
        "ssa/spikformer_eval", "bsa/bsa_eval"}) {
    const TensorFile golden = recorded(name);
    for (const auto& [tensor, value] : golden.tensors) {
      if (!tensor.starts_with("in.") && !tensor.starts_with("param.")) continue;
      TensorFile wrong = golden;
      wrong.tensors.erase(tensor);
      const std::string problem = check_golden(wrong, "").problem;
      if (problem.empty()) continue;  // one that need not be there
      EXPECT_THAT(problem, HasSubstr(tensor.substr(tensor.rfind('.') + 1))) << name << " " << tensor;
      EXPECT_THAT(problem, Not(HasSubstr("malformed"))) << name << " " << tensor;
    }
  }
}

TEST(Golden, MasksOfAnyType) {
  for (const auto& [name, mask] :
       {std::pair<std::string, std::string>{"sparse/local", "in.mask"}, {"softmax/cross_padded", "in.key_mask"}})
    for (DType dtype : {DType::i64, DType::i32, DType::f64, DType::f32, DType::u8, DType::boolean}) {
      TensorFile golden = recorded(name);
      golden.tensors[mask] = converted(golden.tensors.at(mask), dtype);
      const GoldenReport report = check_golden(golden, "");
      EXPECT_TRUE(report.passed()) << name << " " << to_string(dtype) << ": " << report.problem;
    }
}

TEST(Golden, MasksKeepWhereTheyAreNotZero) {
  TensorFile golden = recorded("softmax/cross_padded");
  Tensor mask = converted(golden.tensors.at("in.key_mask"), DType::f64);
  for (Index i = 0; i < mask.size(); ++i) mask.set(i, mask.at(i) * -0.25);
  golden.tensors["in.key_mask"] = mask;
  EXPECT_TRUE(check_golden(golden, "").passed());
}

TEST(Golden, FlagsInJsonAndPythonSpelling) {
  TensorFile golden;
  golden.metadata = {{"a", "true"}, {"b", "True"}, {"c", "1"}, {"d", "false"}, {"e", "False"}, {"f", "0"}};
  const GoldenMetadata metadata(golden);
  for (const char* key : {"a", "b", "c"}) EXPECT_TRUE(metadata.flag(key, false)) << key;
  for (const char* key : {"d", "e", "f"}) EXPECT_FALSE(metadata.flag(key, true)) << key;
  EXPECT_TRUE(metadata.flag("absent", true));
}

TEST(Golden, TheRegressionSaysThatItRunsInDouble) {
  const TensorFile golden = recorded("svr/rbf_bias");
  EXPECT_EQ(check_golden(golden, "").results.at(0).implementation, "svr");
  const GoldenReport report = check_golden(golden, "", DType::f32);
  EXPECT_TRUE(report.passed());
  EXPECT_THAT(report.results.at(0).implementation, HasSubstr("f64 only"));
}

// Errors are relative, so that the worst of many cases means something.
TEST(Golden, TheRegressionReportsRelativeErrors) {
  const GoldenReport report = check_golden(recorded("svr/softmax_attention"), "");
  EXPECT_TRUE(report.passed());
  EXPECT_LE(report.results.at(0).tolerance, 1e-6);
}

}  // namespace
}  // namespace saddle::mechanisms
