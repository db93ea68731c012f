// Every golden case through torch: what is recorded of declared attentions, layers, encodings of time and tables.
#include "saddle/nn/golden/golden.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "places.hpp"
#include "saddle/io/safetensors.hpp"

namespace saddle::nn {
namespace {

namespace fs = std::filesystem;
using mechanisms::GoldenReport;

// Those that have no module: generators, masks of tables, optimisers, single neurons.
const std::set<std::string> without_module{"hyla/fuzzy_logic_4var_2term", "hyla/sraven_max8"};

bool has_module(const TensorFile& golden, const std::string& name) {
  const auto kind = golden.metadata.find("kind");
  const std::set<std::string> kinds{"layer", "model", "bsa"};
  return !without_module.contains(name) && (kind == golden.metadata.end() || kinds.contains(kind->second));
}

struct Recorded {
  std::string name;
  TensorFile golden;
};

std::vector<Recorded> recorded() {
  const auto names = mechanisms::golden_names(golden_checks());
  std::vector<Recorded> cases;
  for (const std::string& folder : names) {
    const fs::path path = fs::path(SADDLE_SOURCE_DIR) / "tests/golden" / folder;
    if (!fs::exists(path)) continue;
    for (const auto& entry : fs::directory_iterator(path)) {
      Recorded each{folder + "/" + entry.path().stem().string(), io::read_safetensors(entry.path())};
      if (has_module(each.golden, each.name)) cases.push_back(std::move(each));
    }
  }
  return cases;
}

GoldenReport checked(const Recorded& each, DType dtype) {
  return mechanisms::check_golden(each.golden, each.name, dtype, golden_checks());
}

TEST(GoldenThroughTorch, EveryCaseInDouble) {
  const auto cases = recorded();
  EXPECT_GT(cases.size(), 90U);
  for (const Recorded& each : cases) {
    const GoldenReport report = checked(each, DType::f64);
    EXPECT_TRUE(report.passed()) << each.name << ": " << report.problem;
    for (const auto& result : report.results) {
      EXPECT_TRUE(result.refusals.empty()) << each.name << ": " << ::testing::PrintToString(result.refusals);
      EXPECT_TRUE(result.passed) << each.name << ", " << result.implementation << ": " << result.worst_tensor
                                 << " is off by " << result.error << ", allowed " << result.tolerance;
    }
  }
}

// What float cannot do is refused; what runs, passes.
TEST(GoldenThroughTorch, EveryCaseInFloat) {
  for (const Recorded& each : recorded()) {
    const GoldenReport report = checked(each, DType::f32);
    EXPECT_EQ(report.problem, "") << each.name;
    for (const auto& result : report.results)
      EXPECT_TRUE(result.passed) << each.name << ", " << result.implementation << ": " << result.worst_tensor
                                 << " is off by " << result.error << ", allowed " << result.tolerance;
  }
}

// A gradient with one wrong number is noticed by the module as well.
TEST(GoldenThroughTorch, NoticesAWrongNumber) {
  std::set<std::string> seen;
  for (const Recorded& each : recorded()) {
    if (!seen.insert(each.name.substr(0, each.name.find('/'))).second) continue;  // one of each folder
    for (const auto& [name, tensor] : each.golden.tensors) {
      if (!name.starts_with("grad.") && name != "out.y") continue;
      Recorded wrong = each;
      saddle::Tensor& changed = wrong.golden.tensors.at(name);
      double largest = 1;
      for (Index i = 0; i < changed.size(); ++i) largest = std::max(largest, std::abs(changed.at(i)));
      changed.set(changed.size() / 2, changed.at(changed.size() / 2) + 1e-5 * largest);
      EXPECT_FALSE(checked(wrong, DType::f64).passed()) << each.name << " " << name;
    }
  }
}

// What no module does is said, not skipped in silence, and fails nothing.
TEST(GoldenThroughTorch, RefusesWithAReason) {
  const fs::path folder = fs::path(SADDLE_SOURCE_DIR) / "tests/golden";
  Recorded scaled{"ssa", io::read_safetensors(folder / "ssa/spikformer_eval.safetensors")};
  scaled.golden.metadata["surrogate_alpha"] = "3";
  const GoldenReport report = checked(scaled, DType::f64);
  ASSERT_EQ(report.results.size(), 1U);
  EXPECT_FALSE(report.results[0].refusals.empty());
  EXPECT_TRUE(report.results[0].passed);
  Recorded hidden{"hyla", io::read_safetensors(folder / "hyla/hyla_causal_relbias_n9.safetensors")};
  hidden.golden.tensors.at("in.mask").set(3, 1);  // query 0 sees key 3
  EXPECT_NE(checked(hidden, DType::f64).results.at(0).refusals.at(0).find("in.mask"), std::string::npos);
}

}  // namespace
}  // namespace saddle::nn
