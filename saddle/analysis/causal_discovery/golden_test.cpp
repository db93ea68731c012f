// Recorded cases, and cases that are wrong in themselves: each becomes a problem in the report, none passes.
#include <gmock/gmock.h>

#include <filesystem>
#include <functional>

#include "places.hpp"
#include "saddle/analysis/causal_discovery/causal_discovery.hpp"
#include "saddle/io/safetensors.hpp"

namespace saddle::analysis::causal_discovery {
namespace {

using testing::HasSubstr;

const std::filesystem::path folder = SADDLE_SOURCE_DIR "/tests/golden/causal-discovery";

mechanisms::GoldenReport run(const TensorFile& golden) {
  return mechanisms::check_golden(golden, "case", DType::f64, analysis().golden);
}

TensorFile recorded(const std::string& name) { return io::read_safetensors(folder / (name + ".safetensors")); }

TEST(CausalGolden, RecordedCases) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto report = run(io::read_safetensors(entry.path()));
    EXPECT_TRUE(report.passed()) << entry.path() << " " << report.problem
                                 << (report.results.empty() ? "" : report.results[0].worst_tensor);
    ++count;
  }
  EXPECT_EQ(count, 33);
}

// One wrong element in any output is noticed.
TEST(CausalGolden, NoticesAWrongElement) {
  for (const char* name : {"ci_sem_n7", "pc_sem_n6", "fci_sem_latent_n7", "icd_padded_n9", "oracle_s84_n6", "rules_n5",
                           "cleann_n8_range"}) {
    const TensorFile golden = recorded(name);
    for (const auto& [output, tensor] : golden.tensors) {
      if (!output.starts_with("out.")) continue;
      TensorFile wrong = golden;
      Tensor& changed = wrong.tensors.at(output);
      const Index at = changed.size() / 2;
      changed.set(at, is_floating(tensor.dtype()) ? tensor.at(at) + 1e-8 : tensor.at(at) == 0 ? 1 : 0);
      EXPECT_FALSE(run(wrong).passed()) << name << " " << output;
    }
  }
}

TEST(CausalGolden, MalformedCasesAreProblems) {
  struct Fault {
    std::string name;
    std::function<void(TensorFile&)> make;
    std::string problem;
  };
  const auto set = [](const std::string& key, const std::string& value) {
    return [=](TensorFile& golden) { golden.metadata[key] = value; };
  };
  const auto drop = [](const std::string& tensor) { return [=](TensorFile& golden) { golden.tensors.erase(tensor); }; };
  const auto reshape = [](const std::string& tensor, const Shape& shape) {
    return [=](TensorFile& golden) { golden.tensors[tensor] = Tensor(golden.tensors.at(tensor).dtype(), shape); };
  };
  const Fault faults[] = {
      {"ci_sem_n7", set("kind", "guess"), "unknown value 'guess'"},
      {"ci_sem_n7", [](TensorFile& golden) { golden.metadata.erase("num_samples"); }, "num_samples"},
      {"ci_sem_n7", set("num_samples", "many"), "num_samples"},
      {"ci_sem_n7", set("num_samples", "-3"), "samples"},
      {"ci_sem_n7", drop("in.query"), "in.query"},
      {"ci_sem_n7", drop("out.p_value"), "no output"},
      {"ci_sem_n7", [](TensorFile& golden) { golden.tensors.at("in.query").set(0, 7); }, "variable 7"},
      {"ci_sem_n7", [](TensorFile& golden) { golden.tensors.at("in.correlation").set(1, 0.9); }, "not a correlation"},
      {"ci_sem_n7", reshape("in.query", {3}), "2 dimensions"},
      {"pc_sem_n6", reshape("in.correlation", {6, 5}), "square"},
      {"pc_sem_n6", set("nodes", "[0, 6]"), "0 to 5"},
      {"pc_sem_n6", set("nodes", "[]"), "empty"},
      {"pc_sem_n6", set("alpha", "2"), "alpha"},
      {"pc_sem_n6", set("nodes", "[1, 1]"), "different"},
      {"fci_attention_n6", [](TensorFile& golden) { golden.tensors["out.other"] = Tensor(DType::u8, {1}); },
       "out.other"},
      {"fci_attention_n6", reshape("in.attention", {6, 6}), "row 0"},
      {"oracle_s84_n6", set("observed", "[0, 99]"), "observed"},
      {"oracle_s84_n6", [](TensorFile& golden) { golden.tensors.at("in.dag").set(0, 1); }, "cycle"},
      {"rules_n5", reshape("in.rule", {4}), "in.rule has shape"},
      {"rules_n5", reshape("in.sepset", {4}), "in.sepset has shape"},
      {"rules_n5", reshape("in.pag", {60, 5}), "in.pag has shape"},
      {"rules_n5", [](TensorFile& golden) { golden.tensors.at("in.rule").set(0, 12); }, "rule 12"},
      {"rules_n5", [](TensorFile& golden) { golden.tensors.at("in.pag").set(1, 4); }, "the mark 4"},
      {"cleann_n8_range", set("target", "8"), "not among the nodes"},
      {"cleann_n8_range", set("causes", "[1, 2]"), "causes"},
      {"cleann_n8_range", set("causes", "[[\"one\"]]"), "causes"},
      {"cleann_n8_range", set("causes", "none"), "causes"},
      {"cleann_n8_range", set("max_range", "far"), "max_range"}};
  for (const Fault& fault : faults) {
    TensorFile golden = recorded(fault.name);
    fault.make(golden);
    const auto report = run(golden);
    EXPECT_FALSE(report.passed()) << fault.problem;
    EXPECT_THAT(report.problem, HasSubstr(fault.problem)) << fault.name;
  }
}

}  // namespace
}  // namespace saddle::analysis::causal_discovery
