#include "saddle/analysis/depth_width/plan.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "places.hpp"
#include "saddle/analysis/depth_width/depth_width.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis::depth_width {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

PlanRequest for_params(const std::string& params) {
  PlanRequest request;
  request.params = params;
  return request;
}

TEST(Plan, SizesHaveUnits) {
  for (const auto& [text, value] : {std::pair{"50M", 50e6}, {"1.3B", 1.3e9}, {"2e8", 2e8}, {"300k", 3e5}, {"1T", 1e12}})
    EXPECT_DOUBLE_EQ(make_plan(for_params(text)).params, value) << text;
  for (const char* text : {"", "M", "0", "-5M", "50X", "nan", "1e400"})
    EXPECT_THROW(make_plan(for_params(text)), InvalidArgument) << text;
  PlanRequest compute;
  compute.flops = "6e19";
  EXPECT_THAT([&] { make_plan(compute); }, ThrowsMessage<InvalidArgument>(HasSubstr("6 tokens")));
  compute.tokens = "10B";
  EXPECT_DOUBLE_EQ(make_plan(compute).params, 1e9);
  compute.params = "50M";
  EXPECT_THROW(make_plan(compute), InvalidArgument);
}

TEST(Plan, RowsHaveTheSizeAndOneIsRecommended) {
  for (const char* text : {"2M", "50M", "600M", "175B"}) {
    const PlanRequest request = for_params(text);
    const Plan plan = make_plan(request);
    int recommended = 0;
    for (const PlanRow& row : plan.rows) {
      // Rounding moves the width by half a multiple at most.
      const auto depth = static_cast<double>(row.depth), width = static_cast<double>(row.width);
      EXPECT_LE(std::fabs(std::sqrt(plan.params / (12 * depth)) - width), 32 + 1e-9) << text;
      if (row.mark != "recommended") continue;
      ++recommended;
      EXPECT_THAT(standing_text(row, request), HasSubstr("balanced")) << text;
    }
    EXPECT_EQ(recommended, 1) << text;
    EXPECT_FALSE(plan.given) << text;
  }
}

TEST(Plan, TheFolderOfARunTellsItsSettings) {
  std::string folder = (std::filesystem::temp_directory_path() / "saddle-plan-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  PlanRequest request;
  request.config = folder;
  EXPECT_THROW(make_plan(request), IoError);
  std::ofstream(folder + "/config.toml") << "[model]\nname = 'language_model'\nwidth = 512\ndepth = 6\n";
  const Plan plan = make_plan(request);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(plan.given);
  EXPECT_EQ(plan.given->width, 512);
  EXPECT_EQ(plan.given->depth, 6);
  EXPECT_EQ(plan.given->standing.regime, Regime::could_be_deeper);
  EXPECT_TRUE(plan.notes.empty());
}

TEST(Plan, ThePageShowsTheLineAndTheShapes) {
  PlanRequest request;
  request.depth = 96;
  request.width = 12288;
  const Plan plan = make_plan(request);
  const Result result = to_result(plan, request);
  EXPECT_THAT(result.findings.at(0), HasSubstr("96 x 12288 is too deep for its width"));
  EXPECT_THAT(result.findings.back(), HasSubstr("extrapolated"));
  ASSERT_EQ(result.charts.size(), 1U);
  const Chart& chart = result.charts[0];
  EXPECT_TRUE(chart.logarithmic);
  EXPECT_EQ(chart.curves.front().name, "the line");
  for (const auto& [depth, width] : chart.curves.front().points) EXPECT_NEAR(transition_width({}, depth), width, 1e-9);
  const Curve& size = chart.curves.at(3);  // every shape of this many parameters
  for (const auto& [depth, width] : size.points) EXPECT_NEAR(params_of(depth, width) / plan.params, 1, 1e-12);
  const auto place = [&](const std::string& name) {
    for (const Curve& curve : chart.curves)
      if (curve.name == name) return curve.points.at(0);
    return std::pair{0.0, 0.0};
  };
  EXPECT_EQ(place("this model"), (std::pair{96.0, 12288.0}));
  EXPECT_EQ(place("recommended"), (std::pair{80.0, 13440.0}));
  EXPECT_EQ(result.tables.at(0).rows.size(), plan.rows.size());
  EXPECT_EQ(nlohmann::json::parse(result.json)["given"]["regime"], -1);
}

TEST(Plan, TheBandIsNamed) {
  PlanRequest request = for_params("50M");
  const auto name = [&] { return to_result(make_plan(request), request).charts.at(0).curves.at(1).name; };
  EXPECT_EQ(name(), "one standard error above");
  request.band = 2.5;
  EXPECT_EQ(name(), "2.5 standard errors above");
  EXPECT_THAT(to_result(make_plan(request), request).about, HasSubstr("with 2.5 standard errors dashed"));
}

// What a model shows and what its settings say are one plan: both know its heads.
TEST(Plan, AModelIsPlannedByItsHeads) {
  ProbedModel model;
  Probe& probe = model.probes.emplace_back();
  probe.tokens = Array<double, 3>({1, 2, 512});
  probe.layers.resize(6);
  for (ProbedLayer& layer : probe.layers) layer.heads = Array<double, 4>({1, 4, 2, 128});
  Options options;
  PlanRequest request;
  request.depth = 6;
  request.width = 512;
  request.heads = 4;
  EXPECT_EQ(analysis().on_model(model, options).json, to_json(make_plan(request)));
  request.heads = PlanRequest::not_given;
  EXPECT_NE(analysis().on_model(model, options).json, to_json(make_plan(request)));
  for (ProbedLayer& layer : probe.layers) {
    layer.weights = Array<double, 4>({1, 4, 2, 2});
    layer.heads = {};
  }
  request.heads = 4;
  EXPECT_EQ(analysis().on_model(model, options).json, to_json(make_plan(request)));
}

TEST(Plan, NoLayersAndNoWidthAreRefused) {
  for (const auto& [member, name] : {std::pair{&PlanRequest::depth, "--depth"},
                                     {&PlanRequest::width, "--width"},
                                     {&PlanRequest::heads, "--heads"}}) {
    PlanRequest request = for_params("50M");
    request.*member = 0;
    EXPECT_THAT([&] { make_plan(request); },
                ThrowsMessage<InvalidArgument>(AllOf(HasSubstr(name), HasSubstr("from 1 to"), HasSubstr("found 0"))));
  }
}

TEST(Plan, ShapesOverTheBudgetAreNoted) {
  const auto notes = [](const std::string& params, Index multiple) {
    PlanRequest request = for_params(params);
    request.multiple = multiple;
    return make_plan(request).notes;
  };
  EXPECT_THAT(notes("5", 64), Contains(AllOf(HasSubstr("over the budget"), HasSubstr("49.2 k"), HasSubstr("and 5 were"),
                                             HasSubstr("--multiple"))));
  EXPECT_THAT(notes("5", 1), Contains(AllOf(HasSubstr("has 12 parameters"), Not(HasSubstr("--multiple")))));
  EXPECT_THAT(notes("50k", 64), Not(Contains(HasSubstr("over the budget"))));
}

// An analysis has other options than the planner, and nobody asked it for a size.
TEST(Plan, NotesOfAnAnalysisNameItsOptions) {
  ProbedModel model;
  Probe& probe = model.probes.emplace_back();
  probe.tokens = Array<double, 3>({1, 2, 16});
  probe.layers.resize(1);
  Options options;
  const Result small = analysis().on_model(model, options);
  EXPECT_THAT(small.findings,
              Contains(AllOf(HasSubstr("more than the 3.07 k of the given one"), HasSubstr("a smaller --set multiple="),
                             Not(HasSubstr("--multiple")), Not(HasSubstr("asked for")), Not(HasSubstr("budget")))));
  Options wrong(std::map<std::string, std::string>{{"multiple", "0"}});
  EXPECT_THAT([&] { analysis().on_model(model, wrong); },
              ThrowsMessage<InvalidArgument>(HasSubstr("--set multiple= must be at least 1")));
  PlanRequest given;
  given.depth = 1;
  given.width = 16;
  EXPECT_THAT(make_plan(given).notes, Contains(AllOf(HasSubstr("of the given one"), HasSubstr("smaller --multiple"))));
}

std::vector<std::string> notes_on(const std::string& config) {
  std::string folder = (std::filesystem::temp_directory_path() / "saddle-plan-XXXXXX").string();
  EXPECT_NE(::mkdtemp(folder.data()), nullptr);
  std::ofstream(folder + "/config.json") << config;
  PlanRequest request;
  request.config = folder + "/config.json";
  const Plan plan = make_plan(request);
  std::filesystem::remove_all(folder);
  EXPECT_NO_THROW(nlohmann::json::parse(to_json(plan)));
  return plan.notes;
}

TEST(Plan, NotesSayWhatAModelIs) {
  const std::vector<std::string> experts = notes_on(
      R"({"model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
          "num_key_value_heads": 8, "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2})");
  EXPECT_THAT(experts, Contains(HasSubstr("46.4 G weights, of which a token meets 12.6 G")));
  EXPECT_THAT(experts, Contains(HasSubstr("8 experts")));
  EXPECT_THAT(notes_on(R"({"model_type": "t5", "num_layers": 6, "d_model": 512, "is_encoder_decoder": true})"),
              Contains(AllOf(HasSubstr("a decoder alone or an encoder alone"), HasSubstr("that of the encoder"))));
  EXPECT_THAT(notes_on(R"({"model_type": "xlnet", "n_layer": 12, "d_model": 768, "n_head": 12})"),
              Contains(HasSubstr("which xlnet is not: it attends in two streams")));
  EXPECT_THAT(notes_on(R"({"model_type": "gemma3_text", "num_hidden_layers": 34, "hidden_size": 2560})"),
              Contains(HasSubstr("does not tell how many weights its layers have")));
  EXPECT_THAT(notes_on(R"({"model_type": "llava", "text_config": {"model_type": "llama", "num_hidden_layers": 32,
                           "hidden_size": 4096}, "vision_config": {"hidden_size": 1024}})"),
              Contains(HasSubstr("this is text_config of llava")));
}

TEST(Plan, TensorsAreNoDescription) {
  PlanRequest request;
  request.config = SADDLE_SOURCE_DIR "/tests/golden/depth-width/fit_gpt3.safetensors";
  EXPECT_THAT([&] { make_plan(request); }, ThrowsMessage<InvalidArgument>(HasSubstr("holds tensors")));
}

TEST(Plan, AmountsAreReadable) {
  EXPECT_EQ(amount_text(49.2e6), "49.2 M");
  EXPECT_EQ(amount_text(999.6), "1 k");
  EXPECT_EQ(amount_text(12), "12");
}

}  // namespace
}  // namespace saddle::analysis::depth_width
