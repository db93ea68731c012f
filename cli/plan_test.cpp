// saddle plan as a program: what it recommends, what it says about a model, how it fails.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "places.hpp"

namespace saddle::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class PlanCommand : public testing::Test {
 protected:
  struct Result {
    int code;
    std::string out, err;
  };

  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "saddle-plan-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  Result plan(const std::string& words) const {
    const std::string line =
        "cd '" + folder_.string() + "' && '" + SADDLE_CLI + "' plan " + words + " >out 2>err </dev/null";
    const int status = std::system(line.c_str());
    return {WEXITSTATUS(status), read("out"), read("err")};
  }
  json document(const std::string& words) const {
    const Result result = plan(words + " --json");
    EXPECT_EQ(result.code, 0) << words << "\n" << result.err;
    return json::parse(result.out);
  }
  std::string read(const std::string& name) const {
    std::ifstream in(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }

  fs::path folder_;
};

TEST_F(PlanCommand, RecommendsAShapeForASize) {
  const json found = document("--params 50M");
  EXPECT_EQ(found["schema"], "saddle.plan/1");
  EXPECT_EQ(found["params"], 50e6);
  EXPECT_EQ(found["recommended"]["depth"], 20);
  EXPECT_EQ(found["recommended"]["width"], 448);
  EXPECT_NEAR(found["recommended"]["depth_continuous"].get<double>(), 19.68336, 1e-5);
  EXPECT_TRUE(found["given"].is_null());
  EXPECT_TRUE(found["tokens"].is_null());
  EXPECT_GE(found["shapes"].size(), 4u);
  EXPECT_TRUE(found["notes"].empty());
  EXPECT_EQ(document("--params 50e6 --multiple 8")["recommended"]["width"], 456);
  const Result text = plan("--params 50M");
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("20 layers of width 448"), HasSubstr("log_3 448 = 5.6"), Not(HasSubstr("note:"))));
  EXPECT_EQ(text.err, "");
}

TEST_F(PlanCommand, ComputeNeedsTokens) {
  const json found = document("--flops 1e20 --tokens 10B");
  EXPECT_NEAR(found["params"].get<double>(), 1e20 / 6e10, 1);
  EXPECT_NEAR(found["flops"].get<double>(), 1e20, 1e6);
  const Result alone = plan("--flops 1e20");
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.err, AllOf(HasSubstr("FLOPs / (6 tokens)"), HasSubstr("--tokens 10B")));
}

TEST_F(PlanCommand, SaysWhereAShapeStands) {
  const json gpt3 = document("--depth 96 --width 12288");
  EXPECT_EQ(gpt3["given"]["regime"], -1);
  EXPECT_NEAR(gpt3["given"]["transition_width"].get<double>(), 31792.95, 0.01);
  EXPECT_EQ(gpt3["recommended"]["depth"], 80);
  EXPECT_FALSE(gpt3["theory"]["depth_efficient"]);
  EXPECT_EQ(gpt3["notes"].size(), 1u);
  EXPECT_THAT(plan("--depth 96 --width 12288").out,
              AllOf(HasSubstr("is too deep for its width"), HasSubstr("note: extrapolated")));
  EXPECT_EQ(document("--depth 12 --width 768")["given"]["standing"], "could be deeper");
  EXPECT_EQ(document("--depth 48 --width 2215")["given"]["standing"], "balanced");
  // Below log_3 of the width no upper bound is stated.
  const json shallow = document("--depth 2 --width 64 --heads 2");
  EXPECT_TRUE(shallow["theory"]["depth_efficient"]);
  EXPECT_TRUE(shallow["theory"]["log3_separation_rank_upper"].is_null());
  EXPECT_NEAR(shallow["theory"]["log3_separation_rank_lower"].get<double>(), 3.12574986, 1e-7);
}

TEST_F(PlanCommand, CompletesAShape) {
  EXPECT_EQ(document("--params 302M --depth 24")["given"]["width"], 1024);
  EXPECT_EQ(document("--params 302M --width 1024")["given"]["depth"], 24);
  EXPECT_EQ(document("--depth 24")["given"]["width"], 576);
  EXPECT_EQ(document("--depth 24 --multiple 1")["given"]["width"], 585);
  EXPECT_EQ(document("--width 1024")["given"]["depth"], 34);
  EXPECT_EQ(document("--width 16")["given"]["depth"], 1);
  EXPECT_THAT(plan("--width 16").out, HasSubstr("no depth pays at width 16"));
}

TEST_F(PlanCommand, ReadsDescriptionsOfModels) {
  write("config.json", R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12})");
  const json gpt2 = document("--config config.json");
  EXPECT_EQ(gpt2["model"]["model"], "gpt2");
  EXPECT_EQ(gpt2["given"]["depth"], 12);
  EXPECT_EQ(gpt2["recommended"]["depth"], 23);
  EXPECT_TRUE(gpt2["notes"].empty());
  write("config.toml", "[model]\nname = 'flowformer'\nwidth = '64'\ndepth = 2\nhidden = 512\n");
  const Result own = plan("--config config.toml");
  EXPECT_EQ(own.code, 0) << own.err;
  EXPECT_THAT(own.out, AllOf(HasSubstr("flowformer"), HasSubstr("2 x 64 is too deep for its width"),
                             HasSubstr("decoder-only"), HasSubstr("weights"), HasSubstr("little about models")));
  fs::create_directory(folder_ / "run");
  fs::rename(folder_ / "config.toml", folder_ / "run" / "config.toml");
  EXPECT_EQ(plan("--config run").out, own.out);
}

// A model and a size that is not its own.
TEST_F(PlanCommand, AModelBesideAnotherSize) {
  write("bert.json",
        R"({"model_type": "bert", "num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12})");
  EXPECT_THAT(plan("--config bert.json").out,
              AllOf(HasSubstr("bert, 84.9 M parameters in layers"), HasSubstr("Best for this size")));
  EXPECT_THAT(plan("--config bert.json --params 10M").out,
              AllOf(HasSubstr("10 M parameters in layers, beside bert with 84.9 M"),
                    HasSubstr("Best for 10 M parameters"), Not(HasSubstr("bert, 10 M"))));
}

TEST_F(PlanCommand, SmallBudgetsAreNoted) {
  EXPECT_THAT(plan("--params 5").out, AllOf(HasSubstr("note: over the budget"), HasSubstr("49.2 k")));
}

TEST_F(PlanCommand, WritesAPage) {
  const Result result = plan("--depth 96 --width 12288 --html page.html");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(read("page.html"), AllOf(HasSubstr("<svg"), HasSubstr("96 x 12288 is too deep for its width"),
                                       HasSubstr("A good model stands on the line")));
  EXPECT_EQ(plan("--published --html page.html").code, 2);
}

TEST_F(PlanCommand, PublishedTableIsRecomputed) {
  const json rows = document("--published")["rows"];
  ASSERT_EQ(rows.size(), 9u);
  EXPECT_EQ(rows[0]["here"]["depth"], 23);
  EXPECT_EQ(rows[7]["standing"], "too deep for its width");
  EXPECT_TRUE(rows[8]["depth"].is_null());
  const json others = document("--published")["applied"];
  ASSERT_EQ(others.size(), 8u);
  EXPECT_EQ(others[0]["width"], 7680);
  EXPECT_NEAR(others[0]["transition_width"].get<double>(), 7510, 1);
  EXPECT_THAT(plan("--published").out, AllOf(HasSubstr("GPT-3 175B"), HasSubstr("80 x 13500"), HasSubstr("80.46"),
                                             HasSubstr("70 x 7680"), HasSubstr("NeoBERT paper")));
}

TEST_F(PlanCommand, WrongWordsAndFiles) {
  const std::pair<std::string, std::string> wrong[] = {
      {"", "nothing to plan from"},
      {"--tokens 10B", "nothing to plan from"},
      {"--params lots", "'lots'"},
      {"--params 50X", "'50X'"},
      {"--params M", "'M'"},
      {"--params 0", "above 0"},
      {"--params=-5M", "above 0"},
      {"--params nan", "above 0"},
      {"--params inf", "above 0"},
      {"--params 1e308T", "above 0"},
      {"--params 1e300", "parameters"},
      {"--params 50M --tokens few", "--tokens"},
      {"--params 50M --flops 1e20", "both say"},
      {"--params 50M --multiple 0", "--multiple"},
      {"--params 50M --band=-1", "--band"},
      {"--params 50M --depth=-3", "--depth"},
      {"--depth 12 --width=-3", "--width"},
      {"--depth 0", "--depth must be a whole number from 1 to 1099511627776, found 0"},
      {"--width 0", "--width must be a whole number from 1 to 1099511627776, found 0"},
      {"--config weights.safetensors", "holds tensors"},
      {"--depth 12 --width 64 --heads 65", "65 heads"},
      {"--depth 9999", "cannot be planned"},
      {"--config c.json --depth 12", "--config tells"},
      {"--depth 1.5", "--depth"},
      {"--layers 3", "--layers"},
  };
  write("c.json", "{\"n_layer\": 12, \"n_embd\": 768}");
  for (const auto& [words, message] : wrong) {
    const Result result = plan(words);
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_THAT(result.err, AllOf(HasSubstr(message), HasSubstr("hint: "), Not(HasSubstr("defect")))) << words;
    EXPECT_EQ(result.out, "") << words;
  }
  write("bad.json", "{\"n_layer\": 12");
  EXPECT_EQ(plan("--config bad.json").code, 3);
  write("empty.toml", "");
  EXPECT_EQ(plan("--config empty.toml").code, 3);
  write("data.toml", "[data]\nname = 'waves'\n");
  EXPECT_THAT(plan("--config data.toml").err, HasSubstr("--print-config"));
  write("npt.toml", "[model]\nname = 'npt'\nwidth = 16\ndepth = 4\n");
  EXPECT_EQ(plan("--config npt.toml").code, 4);
  write("swin.json", "{\"hidden_size\": 768, \"num_layers\": 4, \"num_heads\": [3, 6]}");
  EXPECT_THAT(plan("--config swin.json").err, AllOf(HasSubstr("in stages"), HasSubstr("hint: ")));
  EXPECT_EQ(plan("--config missing.json").code, 1);
  EXPECT_EQ(plan("--config .").code, 1);
}

}  // namespace
}  // namespace saddle::cli
