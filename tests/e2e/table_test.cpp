// saddle train, eval, predict and compare on tables that a model sees as a whole.
#include <gmock/gmock.h>

#include <cmath>
#include <sstream>

#include "process.hpp"

namespace saddle::e2e {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class Tables : public CommandLine {
 protected:
  void SetUp() override {
    CommandLine::SetUp();
    if (!has_training()) GTEST_SKIP() << "this build has no saddle-torch: configure with -DSADDLE_TORCH=ON";
  }
  static std::string train(const std::string& rest) {
    return "saddle train --model npt --set model.width=8 --set model.heads=2 --set model.depth=2 --threads 1 " + rest;
  }
  std::string file(const std::string& name) const { return read_file(folder / "work" / name); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder / "work" / name).parent_path());
    write_file(folder / "work" / name, text);
  }
  nlohmann::json result(const std::string& run) const { return nlohmann::json::parse(file(run + "/result.json")); }
  // y = 3 a - b, blank separated, with two splits.
  void write_fixed(const std::string& name) const {
    std::ostringstream rows;
    for (int i = 0; i < 40; ++i) rows << i % 7 << "  " << i % 5 << ' ' << 3 * (i % 7) - i % 5 << ".5\n";
    write(name + "/data.txt", rows.str());
    write(name + "/test_splits.txt", "0 1 2 3 4 5\n34 35 36 37 38 39\n");
  }
};

TEST_F(Tables, AreLearnedPredictedAndFilledIn) {
  const Result trained = sh(train("--data examples/data/flowers.csv --lr 0.01 --steps 120 --out run"));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("test accuracy"));
  EXPECT_THAT(trained.err, HasSubstr("4 values of its features are missing"));
  EXPECT_GT(result("run")["test"]["accuracy"].get<double>(), result("run")["test"]["floor"].get<double>() + 0.2);
  const auto eval = json("saddle eval run --json");
  EXPECT_EQ(eval["accuracy"], result("run")["test"]["accuracy"]);
  EXPECT_NEAR(eval["loss"].get<double>(), result("run")["test"]["loss"].get<double>(), 1e-5);
  EXPECT_EQ(json("saddle eval run/checkpoints/best.safetensors --json")["accuracy"], eval["accuracy"]);

  // Columns in another order, one that is not known, no target, a colour that no training row has.
  write("new.csv", "height,colour,note,petal width,petal length\n10,violet,a,0.6,2.5\n15,green,b,,3.6\n");
  const Result predicted = sh("saddle predict run new.csv");
  ASSERT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_THAT(predicted.out, HasSubstr("sample,label,predicted,p(bell),p(cup),p(star)\n0,,"));
  EXPECT_THAT(predicted.err, HasSubstr("'green' in column 'colour'"));
  const auto document = json("saddle predict run new.csv --json");
  EXPECT_EQ(document["target"], "kind");
  ASSERT_EQ(document["samples"].size(), 2U);
  // A kind that training does not know is one all the same: no row is left out for it.
  write("kinds.csv",
        "petal length,petal width,height,colour,kind\n1,2,3,violet,bell\n2,1,4,violet,cup\n2,1,4,violet,plum\n");
  const auto kinds = json("saddle predict run kinds.csv --json")["samples"];
  ASSERT_EQ(kinds.size(), 3U);
  EXPECT_EQ(kinds[2]["label"], "(unknown)");
  EXPECT_EQ(json("saddle eval run --data kinds.csv --json")["count"], 3);
  double sum = 0;
  for (const auto& p : document["samples"][1]["probabilities"]) sum += p.get<double>();
  EXPECT_NEAR(sum, 1, 1e-6);

  const auto cells = json("saddle predict run examples/data/flowers.csv --impute --json")["cells"];
  ASSERT_EQ(cells.size(), 4U);
  EXPECT_EQ(cells[0]["column"], "petal width");
  EXPECT_EQ(cells[2]["column"], "colour");
  const Result filled = sh("saddle predict run examples/data/flowers.csv --impute --out filled.csv");
  EXPECT_THAT(filled.out, HasSubstr("filled.csv: 4 cells filled in"));
  EXPECT_EQ(file("filled.csv").find('?'), std::string::npos);
  EXPECT_THAT(file("filled.csv"), HasSubstr("2.8," + cells[0]["value"].get<std::string>() + ",8,violet,bell\n"));
}

TEST_F(Tables, AreLookedIntoBetweenRowsAndBetweenAttributes) {
  ASSERT_EQ(sh(train("--data examples/data/flowers.csv --lr 0.01 --steps 20 --out run")).code, 0);
  for (const std::string name : {"head_redundancy", "spectrum", "rank_collapse", "causal_discovery"}) {
    const auto document = json("saddle analyze " + name + " run --samples 6 --json --html page.html");
    const auto& inputs = document["result"]["inputs"];
    ASSERT_EQ(inputs.size(), 2U) << name;
    EXPECT_EQ(inputs[0]["input"], "run rows") << name;
    EXPECT_EQ(inputs[1]["input"], "run attributes") << name;
    EXPECT_FALSE(document["figures"].empty()) << name;
    EXPECT_THAT(document["findings"][0].get<std::string>(), HasSubstr("predicts 6 of"));
    EXPECT_THAT(file("page.html"), HasSubstr("<svg")) << name;
  }
  const auto rows = json("saddle analyze spectrum run --samples 6 --set between=rows --json");
  EXPECT_EQ(rows["result"]["layers"][0]["tokens"], 12);
  const auto columns = json("saddle analyze spectrum run/checkpoints/best.safetensors --set between=attributes --json");
  EXPECT_EQ(columns["result"]["layers"][0]["tokens"], 5);
  // Heads between rows are 20 wide and want more rows than that; between five attributes they are 4 wide.
  const auto values = json("saddle analyze kpca_value run --samples 40 --json");
  EXPECT_EQ(values["result"]["inputs"].size(), 2U);
  EXPECT_THAT(sh("saddle analyze kpca_value run --samples 6").out, HasSubstr("Attention between rows is left out"));
  const Result graph = sh("saddle analyze causal_discovery run --sample 3 --set between=attributes");
  EXPECT_EQ(graph.code, 0) << graph.err;
  EXPECT_THAT(graph.out, HasSubstr("colour"));
  const auto says = [&](const std::string& line, int code, const std::string& text) {
    const Result wrong = sh(line);
    EXPECT_EQ(wrong.code, code) << line << "\n" << wrong.err;
    EXPECT_THAT(wrong.err, HasSubstr(text)) << line;
  };
  says("saddle analyze attention_paths run", 4, "about models of single samples");
  says("saddle analyze attention_paths run", 4,
       "by causal_discovery, head_redundancy, kpca_value, rank_collapse, spectrum");
  says("saddle analyze imf run", 4, "about models of single samples");
  says("saddle analyze spectrum run --set between=cells", 2, "takes rows or attributes");
  says("saddle analyze spectrum run --sample 999", 2, "row 999");
  says("saddle prune run --keep 1", 2, "holds a model of a table");
}

TEST_F(Tables, BatchesAreScoredAsInTheRun) {
  ASSERT_EQ(sh(train("--data examples/data/flowers.csv --batch 30 --lr 0.01 --steps 40 --out run")).code, 0);
  const auto eval = json("saddle eval run --json");
  EXPECT_EQ(eval["accuracy"], result("run")["test"]["accuracy"]);
  EXPECT_EQ(eval["loss"], result("run")["test"]["loss"]);
  EXPECT_EQ(eval["floor"], result("run")["test"]["floor"]);
}

TEST_F(Tables, RunsWithoutTestRowsNameNoReport) {
  write("new.csv", "petal length,petal width,height,colour\n1,2,3,violet\n");
  const Result trained = sh(train("--data examples/data/flowers.csv --test new.csv --steps 2 --out run"));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr("there is no test split"));
  EXPECT_THAT(trained.out, testing::Not(HasSubstr("report.html")));
}

TEST_F(Tables, InterruptedAndResumedGiveTheSameBits) {
  const std::string what = train("--data examples/data/flowers.csv --steps 200 --evaluate-steps 5 ");
  ASSERT_EQ(sh(what + "--out whole").code, 0);
  const Result cut =
      sh(what +
         "--out cut & process=$!; for i in $(seq 1500); do [ -s cut/metrics.jsonl ] && break; sleep 0.02; done; "
         "kill -INT $process; wait $process");
  ASSERT_EQ(cut.code, 130) << cut.err;
  EXPECT_FALSE(fs::exists(folder / "work/cut/result.json"));
  const Result resumed = sh("saddle train --resume --out cut");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(file("cut/checkpoints/best.safetensors"), file("whole/checkpoints/best.safetensors"));
  EXPECT_EQ(file("cut/predictions.csv"), file("whole/predictions.csv"));
}

TEST_F(Tables, SplitsGiveAMeanAndStayWhenTheyAreDone) {
  write_fixed("set");
  const std::string what = train("--data set --steps 30 --out splits --splits 2 ");
  const auto first = json(what + "--json");
  EXPECT_EQ(first["measure"], "rmse");
  const double a = result("splits/split-0")["test"]["rmse"], b = result("splits/split-1")["test"]["rmse"];
  EXPECT_NE(a, b);
  EXPECT_NEAR(first["mean"].get<double>(), (a + b) / 2, 1e-9);
  EXPECT_NEAR(first["deviation"].get<double>(), std::abs(a - b) / std::sqrt(2.0), 1e-9);
  EXPECT_EQ(result("splits/split-1")["data"]["split"], "fixed split 1");
  EXPECT_EQ(json(what + "--json"), first);
  const Result config = sh(train("--data set --splits 2 --print-config"));
  EXPECT_EQ(config.code, 0) << config.err;
  EXPECT_THAT(config.out, HasSubstr("split = 0"));
  EXPECT_THAT(sh(train("--data set --steps 30 --out more --splits 3")).err, HasSubstr("has 2"));
  // A file is cut into parts.
  const auto parts =
      json(train("--data examples/data/flowers.csv --test-share 0.5 --steps 5 --out p --splits 2 --json"));
  EXPECT_EQ(parts["measure"], "accuracy");
  EXPECT_EQ(result("p/split-1")["data"]["split"], "45 of 90 rows held out, part 1 of 2");
}

TEST_F(Tables, AttentionsAreComparedByTheErrorOfNumbers) {
  write_fixed("set");
  const auto document = json(
      "saddle compare --attention softmax --attention 'linear(elu1)' --data set --seeds 0,1 --out c --json -- "
      "--model npt --set model.width=8 --set model.heads=2 --set model.depth=2 --steps 10");
  const auto& group = document["results"][0];
  EXPECT_EQ(group["score"], "rmse");
  EXPECT_EQ(group["attentions"].size(), 2U);
  EXPECT_EQ(group["attentions"][1]["difference"]["n"], 2);
  EXPECT_THAT(sh("saddle compare c").out, HasSubstr("RMSE"));
}

TEST_F(Tables, WrongInputIsExplained) {
  const auto says = [&](const std::string& line, int code, const std::string& text) {
    const Result wrong = sh(line);
    EXPECT_EQ(wrong.code, code) << line << "\n" << wrong.err;
    EXPECT_THAT(wrong.err, HasSubstr(text)) << line;
  };
  write("empty.csv", "");
  write("header.csv", "a,b,y\n");
  write("ragged.csv", "a,y\n1,2\n3\n");
  std::string words = "a,y\n";
  for (int i = 0; i < 40; ++i) words += (i == 20 ? "tall" : std::to_string(i)) + std::string(",") + "1.5\n";
  write("words.csv", words);
  says(train("--data empty.csv --out x"), 3, "empty");
  says(train("--data header.csv --out x"), 3, "no records");
  says(train("--data ragged.csv --out x"), 3, "ragged.csv:3");
  says(train("--data words.csv --out x"), 3, "words.csv:22:1");
  says(train("--data examples/data/flowers.csv --target knd --out x"), 2, "'knd'");
  says(train("--data examples/data/flowers.csv --predict numbers --out x"), 3, "no numbers");
  says(train("--data examples/data/flowers.csv --mask-features 1.5 --out x"), 2, "mask_features");
  says(train("--data examples/data/waves --out x"), 2, "no table");
  says(train("--data examples/data/flowers.csv --workers 2 --out x"), 4, "one process");
  ASSERT_EQ(sh(train("--data examples/data/flowers.csv --mask-features 0 --steps 2 --out run")).code, 0);
  write("few.csv", "colour,height\nred,3\n");
  says("saddle predict run few.csv", 3, "the column 'petal length' of the training rows is missing");
  write("text.csv", "petal length,petal width,height,colour\n1,wide,3,red\n");
  says("saddle predict run text.csv", 3, "text.csv:2:3");
  says("saddle predict run examples/data/flowers.csv --impute", 2, "trained without hiding features");
  write("blank.csv", "petal length,petal width,height,colour,kind\n1,2,3,red,\n");
  says("saddle eval run --data blank.csv", 2, "no row of blank.csv has a value of 'kind'");
}

TEST_F(Tables, PrunedFoldersAreNotTrainedOver) {
  const std::string waves =
      "saddle train --data examples/data/waves --set model.width=16 --set model.heads=4 --epochs 1 ";
  ASSERT_EQ(sh(waves + "--out run").code, 0);
  ASSERT_EQ(sh("saddle prune run --keep 50% --out small").code, 0);
  const std::string before = read_file(folder / "work/small/checkpoints/best.safetensors");
  const Result resumed = sh("saddle train --resume --out small");
  EXPECT_EQ(resumed.code, 2) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("small holds a model that heads were removed from"));
  EXPECT_EQ(read_file(folder / "work/small/checkpoints/best.safetensors"), before);
  // A run in its place is one again.
  ASSERT_EQ(sh(waves + "--force --out small").code, 0);
  EXPECT_EQ(sh("saddle train --resume --out small").code, 0);

  const auto says = [&](const std::string& line, const std::string& text) {
    const Result wrong = sh(line);
    EXPECT_EQ(wrong.code, 2) << line;
    EXPECT_THAT(wrong.err, HasSubstr(text)) << line;
  };
  says("saddle prune run --remove 100", "--remove 100 would leave nothing of");
  says("saddle prune run --curve --by theory --by theory", "the score 'theory' is asked for twice");
  EXPECT_EQ(json("saddle eval run/checkpoints/best.safetensors --json")["accuracy"],
            json("saddle eval run --json")["accuracy"]);
}

}  // namespace
}  // namespace saddle::e2e
