// saddle analyze and saddle prune as programs: every analysis on trained models, pages, wrong input, smaller models.
#include <gmock/gmock.h>

#include <set>

#include "places.hpp"
#include "process.hpp"

namespace saddle::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class Analyze : public CommandLine {
 protected:
  void says(const std::string& line, int code, const std::string& text) const {
    const Result wrong = sh(line);
    EXPECT_EQ(wrong.code, code) << line << "\n" << wrong.err;
    EXPECT_THAT(wrong.err, HasSubstr(text)) << line;
  }
  std::string file(const std::string& name) const { return read_file(folder / "work" / name); }
  // Everything in it, with at least one picture, and nothing from elsewhere.
  void is_page(const std::string& name) const {
    const std::string page = file(name);
    EXPECT_THAT(page, HasSubstr("<svg")) << name;
    EXPECT_THAT(page, HasSubstr("</html>")) << name;
    EXPECT_THAT(page, Not(HasSubstr("src=\"http"))) << name;
    EXPECT_THAT(page, Not(HasSubstr(">nan<"))) << name;
  }
};

class AnalyzeModels : public Analyze {
 protected:
  void SetUp() override {
    Analyze::SetUp();
    if (!has_training()) GTEST_SKIP() << "this build has no saddle-torch: configure with -DSADDLE_TORCH=ON";
  }
  void train(const std::string& rest) const {
    const Result result =
        sh("saddle train --data examples/data/waves --set model.width=16 --set model.heads=4 "
           "--epochs 2 --threads 1 " +
           rest);
    ASSERT_EQ(result.code, 0) << result.err;
  }
};

TEST_F(Analyze, RecordedCasesAreFilesToo) {
  for (const auto& [analysis, golden] : {std::pair{"rank_collapse", "rank-collapse/causal_identity_n8"},
                                         {"attention_paths", "attention-paths/l2_h2x2_n10_w"},
                                         {"causal_discovery", "causal-discovery/icd_attention_n8"},
                                         {"imf", "imf/imf_b2_l3_h2_s13_pad"}}) {
    const std::string file = SADDLE_SOURCE_DIR "/tests/golden/" + std::string(golden) + ".safetensors";
    ASSERT_TRUE(fs::exists(file)) << file;
    const auto document = json(std::string("saddle analyze ") + analysis + " " + file + " --json --html page.html");
    ASSERT_EQ(document["analysis"], analysis);
    is_page("page.html");
  }
}

// Two pages in one folder keep their graphs.
TEST_F(Analyze, FilesBesideAPageHaveItsName) {
  const std::string golden = SADDLE_SOURCE_DIR "/tests/golden/causal-discovery/";
  for (const std::string name : {"icd_attention_n8", "icd_attention_n12"})
    json("saddle analyze causal_discovery " + golden + name + ".safetensors --json --html " + name + ".html");
  EXPECT_NE(sh("cat icd_attention_n8_graph.dot").out, sh("cat icd_attention_n12_graph.dot").out);
  EXPECT_THAT(sh("cat icd_attention_n8_graph.dot").out, HasSubstr("graph"));
}

TEST_F(Analyze, TheCounterexampleKeepsItsRank) {
  const auto document =
      json("saddle analyze rank_collapse --example --set beta=1 --set layers=4000 --json --html page.html");
  const auto& found = document["result"]["counterexample"];
  EXPECT_NEAR(found["second_token"][0].get<double>(), -0.137, 2e-3);
  EXPECT_GT(found["effective_rank"].get<double>(), 1.2 * found["effective_rank_near"].get<double>());
  is_page("page.html");
}

TEST_F(Analyze, WrongInputIsExplained) {
  says("saddle analyze rank_colapse", 2, "did you mean 'rank_collapse'");
  says("saddle analyze spectrum nowhere.safetensors", 1, "nowhere.safetensors");
  says("saddle analyze spectrum nowhere.csv", 1, "there is no nowhere.csv");
  says("saddle analyze spectrum examples/sine.csv", 2, "looks into trained models and into tensors");
  says("saddle analyze energy examples/sine.csv", 4, "takes no files");
  says("saddle analyze rank_collapse --example --set gamma=1", 2, "unknown option 'gamma'");
  says("saddle analyze spectrum --example", 4, "has no example");
  says("saddle analyze rank_collapse --example --set beta", 2, "expected name=value");
}

// What goes wrong in a packed table is said of the file that was given.
TEST_F(Analyze, PackedTablesKeepTheirNames) {
  sh("printf 'a,b\\n1,2\\n3,\\n' | gzip > missing.csv.gz; printf 'a,b\\n1,2.5\\n1,3.5\\n1,4.5\\n' | gzip > "
     "same.csv.gz");
  for (const std::string file : {"missing.csv.gz", "same.csv.gz"}) {
    const Result wrong = sh("saddle analyze causal_discovery " + file + " --set test=fisher_z");
    EXPECT_NE(wrong.code, 0) << file;
    EXPECT_THAT(wrong.err, HasSubstr(file));
    EXPECT_THAT(wrong.err, Not(HasSubstr("saddle-analyze-")));
  }
}

TEST_F(AnalyzeModels, EveryAnalysisOnATrainedModel) {
  train("--attention softmax --attention softmax+bn+sh --set model.depth=2 --out mixed");
  int looked_at = 0;
  const auto list = json("saddle analyze --json");
  for (const auto& each : list["analyses"]) {
    const std::string name = each["name"];
    if (!each["models"].get<bool>() || name == "energy" || name == "imf") continue;  // these need models of their own
    ++looked_at;
    const auto document = json("saddle analyze " + name + " mixed --json --html " + name + ".html");
    EXPECT_FALSE(document["figures"].empty()) << name;
    EXPECT_FALSE(document["result"].is_null()) << name;
    EXPECT_THAT(document["about"].get<std::string>(), HasSubstr(". ")) << name;
    is_page(name + ".html");
    // A file of its checkpoints knows the run; elsewhere the data must be given.
    EXPECT_EQ(json("saddle analyze " + name + " mixed/checkpoints/best.safetensors --json")["figures"],
              document["figures"])
        << name;
  }
  EXPECT_GE(looked_at, 7);
  const auto planned = json("saddle plan --config mixed --json");
  ASSERT_TRUE(planned["theory"].is_object());
  EXPECT_EQ(json("saddle analyze depth_width mixed --json")["result"]["theory"], planned["theory"]);
  says("saddle analyze imf mixed", 2, "does not have tokens of language and of vision");
  sh("cp mixed/checkpoints/best.safetensors bare.safetensors");
  says("saddle analyze spectrum bare.safetensors", 2, "does not say what it was trained on");
  EXPECT_EQ(json("saddle analyze spectrum bare.safetensors --data examples/data/waves --json")["figures"],
            json("saddle analyze spectrum mixed --json")["figures"]);
  says("saddle analyze energy mixed", 4, "no spiking layer");
  says("saddle analyze spectrum mixed --set split=all", 2, "not probed on the split 'all'");
  says("saddle analyze spectrum mixed --samples 0", 2, "--samples must be from 1");
  says("saddle analyze spectrum mixed --data listops", 2, "other inputs");
}

TEST_F(AnalyzeModels, BesideEachOther) {
  train("--attention softmax --out one");
  train("--attention softmax+bn+sh --out two");
  const Result both = sh("saddle analyze head_redundancy one two --html both.html");
  ASSERT_EQ(both.code, 0) << both.err;
  EXPECT_THAT(both.out, HasSubstr("of the first"));
  is_page("both.html");
  const auto document = json("saddle analyze head_redundancy one two --json");
  ASSERT_EQ(document["result"]["inputs"].size(), 2u);
  EXPECT_EQ(document["result"]["inputs"][1]["result"]["splits"].size(), 2u);
}

TEST_F(AnalyzeModels, LayersWithoutWeightsAreNamed) {
  train("--attention softmax --last \"spiking(variant=sdsa)\" --set model.depth=2 --out mixed");
  EXPECT_THAT(sh("saddle analyze spectrum mixed").out,
              HasSubstr("Layer 1 (spiking(variant=sdsa)) has no matrix of weights"));
  EXPECT_EQ(json("saddle analyze attention_paths mixed --json")["result"]["scores"].size(), 4u);
  train("--attention \"spiking(variant=sdsa)\" --out gates");
  says("saddle analyze spectrum gates", 4, "no layer with a matrix of weights");
  says("saddle analyze attention_paths gates", 4, "no layer of the model has weights between tokens");
  // What a layer computes without a matrix can be looked at all the same.
  train("--attention cat --out cat");
  EXPECT_EQ(json("saddle analyze spectrum cat --json")["result"]["layers"][0]["of"], "weights");
  for (const std::string name : {"attention_paths", "rank_collapse", "causal_discovery"})
    EXPECT_FALSE(json("saddle analyze " + name + " cat --json")["figures"].empty()) << name;
  says("saddle analyze kpca_value cat", 4, "no layer that the formula of kernel PCA speaks of");
  says("saddle prune cat --keep 2", 4, "no layer of this model can lose heads");
}

// What a model does with the data is shown, not its lambda alone, which training hardly moves.
TEST_F(AnalyzeModels, KernelsOfPrimalAttention) {
  std::vector<nlohmann::json> layers;
  for (const std::string eta : {"0", "0.1"}) {
    train("--attention \"primal_attention(rank=4,multiple=2,eta=" + eta + ")\" --out eta" + eta);
    const auto document = json("saddle analyze spectrum eta" + eta + " --json --html page.html");
    layers.push_back(document["result"]["layers"]);
    EXPECT_EQ(document["findings"].dump().find("not trained by the loss") != std::string::npos, eta == "0");
    is_page("page.html");
  }
  ASSERT_EQ(layers[0][0]["of"], "kernel");
  EXPECT_NE(layers[0][0]["singular_values"], layers[1][0]["singular_values"]);
}

TEST_F(AnalyzeModels, EnergyOfSpikes) {
  train("--attention \"spiking(steps=2)\" --out spikes");
  const auto document = json("saddle analyze energy spikes --json --html page.html");
  double sum = 0;
  for (const auto& layer : document["result"]["layers"]) {
    EXPECT_LE(layer["firing_rate"].get<double>(), 1);
    sum += layer["picojoules"].get<double>();
  }
  EXPECT_NEAR(document["result"]["total"]["picojoules"].get<double>(), sum, 1e-6 * sum);
  EXPECT_GT(sum, 0);
  // Embedding, two-layer networks and head are not in it, and are not said to be.
  EXPECT_EQ(document["result"]["counted"], "spiking attentions");
  EXPECT_THAT(document["about"].get<std::string>(), HasSubstr("nothing else of it"));
  EXPECT_THAT(document["findings"].dump(), HasSubstr("Not counted is all else"));
  is_page("page.html");
}

TEST_F(AnalyzeModels, PrunedModelsAreModels) {
  train("--attention softmax+bn+sh --attention softmax --set model.depth=2 --out whole");
  for (const std::string by : {"theory", "magnitude", "redundancy", "random"}) {
    const auto pruned =
        json("saddle prune whole --by " + by + " --keep 4 --test --out " + by + " --html " + by + ".html --json");
    // Heads that went have their place and their score at that moment, the others neither.
    std::set<int> places;
    for (const auto& layer : pruned["layers"])
      for (const auto& head : layer["heads"]) {
        EXPECT_EQ(head["removed"].is_null(), head["stays"].get<bool>()) << by;
        EXPECT_EQ(head["score_when_removed"].is_null(), head["stays"].get<bool>()) << by;
        if (!head["stays"].get<bool>()) places.insert(head["removed"].get<int>());
      }
    ASSERT_EQ(places.size(), 4U) << by;
    EXPECT_EQ(*places.begin(), 1) << by;
    EXPECT_EQ(*places.rbegin(), 4) << by;
    EXPECT_EQ(pruned["after"]["heads"], 4) << by;
    EXPECT_LT(pruned["after"]["parameters"], pruned["before"]["parameters"]) << by;
    EXPECT_EQ(json("saddle eval " + by + " --json")["accuracy"], pruned["after"]["test"]["accuracy"]) << by;
    EXPECT_EQ(sh("saddle predict " + by + " examples/data/waves/waves_TEST.ts --out p.csv").code, 0) << by;
    is_page(by + ".html");
    // Every layer keeps one, and what is left can be looked into and pruned again.
    EXPECT_EQ(json("saddle analyze head_redundancy " + by + " --json")["result"]["splits"].size(), 2u) << by;
    EXPECT_EQ(json("saddle prune " + by + " --by magnitude --keep 2 --json")["after"]["heads"], 2) << by;
  }
  // A file alone, by the checkpoint of the run.
  ASSERT_EQ(sh("saddle prune whole/checkpoints/best.safetensors --per-layer --keep 50% --out small.safetensors").code,
            0);
  EXPECT_EQ(sh("saddle eval small.safetensors --data examples/data/waves").code, 0);
  // It knows what it was trained on, as the folder does.
  ASSERT_EQ(sh("saddle prune whole --per-layer --keep 50% --out small").code, 0);
  EXPECT_EQ(json("saddle eval small.safetensors --json")["accuracy"], json("saddle eval small --json")["accuracy"]);
  EXPECT_EQ(json("saddle analyze head_redundancy small.safetensors --json")["figures"],
            json("saddle analyze head_redundancy small --json")["figures"]);
  EXPECT_EQ(json("saddle prune small.safetensors --by magnitude --keep 2 --json")["before"],
            json("saddle prune small --by magnitude --keep 2 --json")["before"]);
  // One that did not know does not pretend to.
  sh("cp whole/checkpoints/best.safetensors bare.safetensors");
  ASSERT_EQ(sh("saddle prune bare.safetensors --data examples/data/waves --keep 4 --out other.safetensors").code, 0);
  says("saddle eval other.safetensors", 2, "does not say what it was trained on");
}

TEST_F(AnalyzeModels, CurvesOfSeveralRuns) {
  train("--seed 1 --out a");
  train("--seed 2 --out b");
  const auto curve = json("saddle prune a b --curve --draws 2 --json --html page.html");
  ASSERT_EQ(curve["scores"].size(), 4u);
  for (const auto& score : curve["scores"]) {
    // All begin with the whole models.
    EXPECT_EQ(score["points"][0]["validation"]["mean"], curve["scores"][0]["points"][0]["validation"]["mean"]);
    EXPECT_EQ(score["points"][0]["validation"]["accuracies"].size(), 2u);
  }
  EXPECT_EQ(json("saddle prune a b --curve --draws 2 --json")["scores"], curve["scores"]);
  is_page("page.html");
}

TEST_F(AnalyzeModels, WrongPruningIsExplained) {
  train("--out run");
  says("saddle prune run", 2, "nothing says how many heads stay");
  says("saddle prune run --keep 3 --remove 1", 2, "both say how many");
  says("saddle prune run --keep many", 2, "takes a number of heads or a share");
  says("saddle prune run --keep 0", 2, "at least");
  says("saddle prune run --keep 99", 2, "99 heads cannot be kept: the model has");
  says("saddle prune run --keep 2 --by magnitude --set temperature=1", 2, "of the theory, and heads go by magnitude");
  says("saddle prune run --curve --by random --set width=8", 2, "of the theory, and heads go by random");
  says("saddle prune run --keep 2 --samples 0", 2, "--samples must be from 1 to 4096, found 0");
  says("saddle prune run --curve --samples 0", 2, "--samples must be from 1 to 4096, found 0");
  // An option that no score looks at is a mistake, not a wish.
  says("saddle prune run --keep 2 --by magnitude --samples 8", 2,
       "--samples 8 is of scores that see the model at work");
  says("saddle prune run --keep 2 --by magnitude --samples 8", 2, "or give --by theory or --by redundancy");
  says("saddle prune run --curve --by magnitude --by random --samples 8", 2, "heads go by magnitude, random");
  says("saddle prune run --keep 2 --seed 0", 2, "--seed 0 is of random scores, and heads go by redundancy");
  says("saddle prune run --curve --by theory --seed 1", 2, "--seed 1 is of random scores, and heads go by theory");
  says("saddle prune run --curve --by theory --draws 2", 2, "--draws 2 is of random scores, and heads go by theory");
  says("saddle prune run --keep 2 --by random --draws 2", 2, "or give --curve");
  says("saddle prune run --keep 2 --by random --seed -1", 2, "--seed must be 0 or above, found -1");
  EXPECT_EQ(json("saddle prune run --keep 2 --by random --seed 3 --json")["seed"], 3);
  EXPECT_EQ(json("saddle prune run --keep 2 --samples 8 --json")["samples"], 8);
  says("saddle prune run --keep 2 --by luck --samples 8", 2, "unknown score 'luck'");
  says("saddle prune run --keep 2 --by luck", 2, "unknown score 'luck'");
  says("saddle prune run --keep 2 --set temprature=1", 2, "did you mean 'temperature'");
  says("saddle prune nowhere --keep 2", 1, "nowhere");
  says("saddle prune run --curve --out x", 2, "writes no model");
  ASSERT_EQ(sh("saddle prune run --keep 4 --out small").code, 0);
  says("saddle prune run --keep 4 --out small", 2, "exists already");
  EXPECT_EQ(sh("saddle prune run --keep 4 --out small --force").code, 0);
}

}  // namespace
}  // namespace saddle::e2e
