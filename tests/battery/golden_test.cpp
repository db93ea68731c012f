// Point 1: every golden case, recomputed by every implementation that accepts it.
#include <gtest/gtest.h>

#include <filesystem>

#include "places.hpp"
#include "saddle/analysis/registry.hpp"
#include "saddle/io/safetensors.hpp"
#include "saddle/mechanisms/golden.hpp"

namespace saddle::battery {
namespace {

const std::vector<mechanisms::GoldenCheck>& checks() {
  static const auto list = analysis::golden_checks();
  return list;
}

std::vector<std::filesystem::path> golden_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(SADDLE_SOURCE_DIR "/tests/golden"))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

class Golden : public ::testing::TestWithParam<std::filesystem::path> {
 protected:
  void expect_pass(DType dtype) const {
    const auto report = mechanisms::check_golden(io::read_safetensors(GetParam()), GetParam().stem(), dtype, checks());
    EXPECT_TRUE(report.passed()) << report.problem;
    for (const auto& result : report.results)
      EXPECT_TRUE(result.passed) << result.implementation << ": " << result.worst_tensor << " is off by "
                                 << result.error << ", allowed " << result.tolerance;
  }
};

TEST_P(Golden, InDouble) { expect_pass(DType::f64); }
TEST_P(Golden, InFloat) { expect_pass(DType::f32); }

// A case with one wrong number must be noticed, whichever tensor it is in.
TEST_P(Golden, NoticesAWrongNumber) {
  const TensorFile golden = io::read_safetensors(GetParam());
  for (const auto& [name, tensor] : golden.tensors) {
    if (!name.starts_with("out.") && !name.starts_with("grad.")) continue;
    if (name == "out.kkt") continue;  // held to its bound, not to the recorded value
    TensorFile wrong = golden;
    Tensor& changed = wrong.tensors.at(name);
    double largest = 1;
    for (Index i = 0; i < changed.size(); ++i) largest = std::max(largest, std::abs(changed.at(i)));
    const Index middle = changed.size() / 2;
    const double before = changed.at(middle);
    changed.set(middle, is_floating(changed.dtype()) ? before + 1e-5 * largest : before == 0 ? 1 : 0);
    EXPECT_FALSE(mechanisms::check_golden(wrong, name, DType::f64, checks()).passed()) << name;
  }
}

// Metadata that mean nothing are a problem of the case, which the report tells.
TEST_P(Golden, SaysWhatAnUnknownWordIs) {
  const TensorFile golden = io::read_safetensors(GetParam());
  for (const char* key : {"variant", "direction", "threshold", "attention_norm", "kind", "ksvd_reduction"}) {
    if (!golden.metadata.contains(key)) continue;
    TensorFile wrong = golden;
    wrong.metadata[key] = "no such word";
    EXPECT_FALSE(mechanisms::check_golden(wrong, key, DType::f64, checks()).passed()) << key;
  }
}

std::string name_of(const ::testing::TestParamInfo<std::filesystem::path>& info) {
  std::string name = info.param.parent_path().filename().string() + "_" + info.param.stem().string();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Files, Golden, ::testing::ValuesIn(golden_files()), name_of);

// A mechanism without recorded cases is allowed; a folder that no check answers for is not.
TEST(GoldenFolder, EveryFolderIsAnsweredFor) {
  const auto names = mechanisms::golden_names(checks());
  for (const auto& entry : std::filesystem::directory_iterator(SADDLE_SOURCE_DIR "/tests/golden"))
    if (entry.is_directory()) {
      const std::string folder = entry.path().filename().string();
      EXPECT_NE(std::find(names.begin(), names.end(), folder), names.end()) << folder;
    }
}

TEST(GoldenFolder, UnknownMechanismNamesTheKnownOnes) {
  TensorFile unknown;
  unknown.metadata["mechanism"] = "made-up";
  const auto report = mechanisms::check_golden(unknown, "file");
  EXPECT_FALSE(report.passed());
  EXPECT_NE(report.problem.find("attention-bn-sh"), std::string::npos) << report.problem;
}

}  // namespace
}  // namespace saddle::battery
