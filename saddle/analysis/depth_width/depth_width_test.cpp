#include "saddle/analysis/depth_width/depth_width.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "places.hpp"
#include "saddle/base/error.hpp"
#include "saddle/io/safetensors.hpp"

namespace saddle::analysis::depth_width {
namespace {

using testing::HasSubstr;

const std::string folder = SADDLE_SOURCE_DIR "/tests/golden/depth-width/";
const std::string cases[] = {"fit_gpt3", "fit_grid", "recommend_gpt3", "recommend_small", "theory_small"};

TensorFile recorded(const std::string& name) { return io::read_safetensors(folder + name + ".safetensors"); }

mechanisms::GoldenReport checked(const TensorFile& golden) {
  return mechanisms::check_golden(golden, "", DType::f64, analysis().golden);
}

TEST(DepthWidth, GoldenCases) {
  for (const std::string& name : cases) {
    const auto report = checked(recorded(name));
    EXPECT_TRUE(report.passed()) << name << " " << report.problem;
  }
}

// A check that passes whatever is recorded would be none.
TEST(DepthWidth, GoldenCasesCanFail) {
  for (const std::string& name : cases) {
    const TensorFile golden = recorded(name);
    for (const auto& [tensor, value] : golden.tensors) {
      TensorFile wrong = golden;
      Tensor& changed = wrong.tensors.at(tensor);
      for (Index i = 0; i < changed.size(); ++i) changed.set(i, 2 * changed.at(i) + 1);
      EXPECT_FALSE(checked(wrong).passed()) << name << " " << tensor;
      for (const Shape& shape : {Shape{}, Shape{0}, Shape{3}, Shape{2, 3}}) {
        wrong.tensors.at(tensor) = Tensor(value.dtype(), shape);
        EXPECT_FALSE(checked(wrong).passed()) << name << " " << tensor << " " << saddle::to_string(shape);
      }
    }
  }
}

TEST(DepthWidth, GoldenFaultsAreNamed) {
  TensorFile golden = recorded("fit_gpt3");
  golden.metadata["kind"] = "guess";
  EXPECT_THAT(checked(golden).problem, HasSubstr("'guess'"));
  golden = recorded("fit_gpt3");
  golden.metadata["b"] = "0";
  EXPECT_THAT(checked(golden).problem, HasSubstr("slope b above 0"));
  golden = recorded("fit_gpt3");
  golden.tensors["out.depth"] = golden.tensors["out.params"];
  EXPECT_THAT(checked(golden).problem, HasSubstr("nothing here computes out.depth"));
  golden = recorded("recommend_small");
  golden.metadata["multiple"] = "0";
  EXPECT_THAT(checked(golden).problem, HasSubstr("the multiple must be above 0"));
}

TEST(DepthWidth, BestShapeSpendsAllParametersOnTheLine) {
  const Fit fit;
  double before = 0;
  for (double params = 1e-3; params < 1e30; params *= 7) {
    const double depth = best_depth(fit, params), width = best_width(fit, params);
    EXPECT_NEAR(params_of(depth, width) / params, 1, 1e-12) << params;
    EXPECT_NEAR(std::log(width), fit.a + fit.b * depth, 1e-12) << params;
    EXPECT_GT(depth, before);
    before = depth;
  }
}

TEST(DepthWidth, StandingChangesAtTheLine) {
  Fit fit;
  fit.sigma_a = fit.sigma_b = 0;
  const auto on_the_line = static_cast<Index>(std::floor(transition_width(fit, 24)));
  EXPECT_EQ(standing(fit, 24, on_the_line).regime, Regime::too_deep);
  EXPECT_EQ(standing(fit, 24, on_the_line + 1).regime, Regime::could_be_deeper);
  // A wider band makes more of them balanced.
  EXPECT_EQ(standing({}, 24, 512).regime, Regime::too_deep);
  EXPECT_EQ(standing({}, 24, 512, 4).regime, Regime::balanced);
  EXPECT_EQ(standing({}, 24, 512, 0).regime, Regime::too_deep);
}

TEST(DepthWidth, ThresholdIsDecidedInWholeNumbers) {
  EXPECT_FALSE(theory(6, 729, 9).depth_efficient);
  EXPECT_TRUE(theory(6, 730, 10).depth_efficient);
  EXPECT_TRUE(theory(5, 729, 9).depth_efficient);
  EXPECT_FALSE(theory(1, 3, 1).depth_efficient);
  EXPECT_FALSE(theory(1, 2, 1).depth_efficient);
  EXPECT_FALSE(theory(100000, Index{1} << 60, 1).depth_efficient);
  EXPECT_TRUE(std::isnan(theory(2, 64, 2).log3_upper));
  EXPECT_LT(theory(12, 768, 12).log3_lower, theory(12, 768, 12).log3_upper);
}

// Every row of the paper's table but two, which do not follow from the printed fit.
TEST(DepthWidth, PublishedTable) {
  ASSERT_EQ(published().size(), 9u);
  for (const Published& row : published()) {
    const Recommendation ours = recommend({}, row.params, 1);
    if (row.model == "GPT-3 Large") {
      EXPECT_EQ(ours.depth, row.best_depth - 1);
      EXPECT_NEAR(std::sqrt(row.params / (12 * 38.0)), static_cast<double>(row.best_width), 1);
    } else if (row.model == "1 trillion") {
      EXPECT_EQ(ours.depth, row.best_depth);
      EXPECT_NEAR(transition_width({}, 95), static_cast<double>(row.best_width), 30);
    } else {
      EXPECT_EQ(ours.depth, row.best_depth) << row.model;
      EXPECT_NEAR(ours.width / static_cast<double>(row.best_width), 1, 0.004) << row.model;
    }
  }
  EXPECT_EQ(standing({}, 96, 12288).regime, Regime::too_deep);
  EXPECT_EQ(standing({}, 40, 5140).regime, Regime::could_be_deeper);
}

TEST(DepthWidth, LooksAtFilesAndModels) {
  Options options;
  const Result file = on_file(SADDLE_SOURCE_DIR "/examples/gpt2/config.json", options);
  EXPECT_THAT(file.findings[0], HasSubstr("12 x 768 could be deeper: depth 12 pays from width 300"));
  EXPECT_EQ(file.figures.at(1), (std::pair<std::string, double>{"width", 768}));
  const auto json = nlohmann::json::parse(file.json);
  EXPECT_EQ(json["model"]["model"], "gpt2");
  EXPECT_EQ(json["recommended"]["depth"], 23);
  EXPECT_THROW(on_file("missing.json", options), IoError);
  Options wrong(std::map<std::string, std::string>{{"depth", "3"}});
  EXPECT_THROW(on_file(SADDLE_SOURCE_DIR "/examples/gpt2/config.json", wrong), InvalidArgument);

  ProbedModel model;
  EXPECT_THROW(on_model(model, options), InvalidArgument);
  Probe probe;
  probe.tokens = Array<double, 3>({1, 2, 64});
  probe.layers.resize(2);
  model.probes.push_back(probe);
  EXPECT_THAT(on_model(model, options).findings[0], HasSubstr("2 x 64 is too deep for its width"));
  model.probes[0].tokens = {};  // blocks of their own show no tokens
  EXPECT_THROW(on_model(model, options), InvalidArgument);
  model.probes[0].layers[0].heads = Array<double, 4>({1, 4, 2, 32});
  EXPECT_THAT(on_model(model, options).findings[0], HasSubstr("2 x 128 is too deep for its width"));
}

// Others who used the rule stand on or near its line, as their sources say.
TEST(DepthWidth, ShapesOfOthers) {
  ASSERT_EQ(applied().size(), 8u);
  EXPECT_NEAR(transition_width({}, static_cast<double>(applied()[0].depth)), 7510, 1);
  EXPECT_NEAR(transition_width({}, static_cast<double>(applied()[1].depth)), 730, 1);
  EXPECT_NEAR(transition_width({}, static_cast<double>(applied()[2].depth)), 3453, 1);
  for (const Applied& row : applied()) {
    EXPECT_LT(std::fabs(standing({}, row.depth, row.width).log_width_gap), 0.17) << row.model;
    EXPECT_FALSE(row.source.empty());
  }
}

// What a model did tells its shape, also as a file.
TEST(DepthWidth, TensorsAreWhatAModelDid) {
  std::string place = (std::filesystem::temp_directory_path() / "saddle-depth-XXXXXX").string();
  ASSERT_NE(::mkdtemp(place.data()), nullptr);
  const std::string file = place + "/did.safetensors";
  TensorFile did;
  did.tensors.emplace("tokens", Tensor(DType::f32, {3, 1, 2, 64}));
  io::write_safetensors(file, did);
  Options options;
  const Result found = analyze_file(analysis(), file, options);
  EXPECT_THAT(found.findings[0], HasSubstr("2 x 64 is too deep for its width"));
  std::filesystem::remove_all(place);
  // Other tensors are named.
  Options again;
  EXPECT_THROW(on_file(SADDLE_SOURCE_DIR "/tests/golden/depth-width/fit_gpt3.safetensors", again), DataError);
}

TEST(DepthWidth, CountsOfGpt2) {
  EXPECT_DOUBLE_EQ(exact_params_of(12, 768, 50257, 1024), 124439808);
  EXPECT_DOUBLE_EQ(params_of_compute(flops_of(1e8, 2e9), 2e9), 1e8);
}

TEST(DepthWidth, RefusesWhatIsNoSize) {
  const double nan = std::nan("");
  EXPECT_THROW(best_depth({}, 0), InvalidArgument);
  EXPECT_THROW(best_depth({}, -1), InvalidArgument);
  EXPECT_THROW(best_depth({}, nan), InvalidArgument);
  EXPECT_THROW(best_depth({.b = 0}, 1e6), InvalidArgument);
  EXPECT_THROW(transition_depth({}, 0), InvalidArgument);
  EXPECT_THROW(recommend({}, 1e6, 0), InvalidArgument);
  EXPECT_THROW(recommend({}, 1e300), InvalidArgument);
  EXPECT_THROW(standing({}, 0, 64), InvalidArgument);
  EXPECT_THROW(standing({}, 1, 0), InvalidArgument);
  EXPECT_THROW(standing({}, 1, 64, nan), InvalidArgument);
  EXPECT_THROW(standing({.cov_ab = -1}, 1, 64), InvalidArgument);
  EXPECT_THROW(theory(1, 4, 5), InvalidArgument);
  EXPECT_THROW(theory(1, 4, 0), InvalidArgument);
  EXPECT_THROW(params_of_compute(1e20, 0), InvalidArgument);
  EXPECT_THROW(params_of_compute(nan, 1), InvalidArgument);
}

}  // namespace
}  // namespace saddle::analysis::depth_width
