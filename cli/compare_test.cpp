// saddle compare with a trainer that only writes what a trainer writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

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

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

// Writes its words to the file `calls`. Fails for the seed $FAIL, dies for the seed $DIE, ends without a result for the
// seed $EMPTY. With $NUMBERS it predicted numbers. With $SLOW it waits for SIGINT, on which it writes a checkpoint and
// exits with 130, like the real one.
constexpr const char* fake_trainer = R"sh(#!/bin/sh
echo "$*" >> "$CALLS"
layers=
while [ $# -gt 0 ]; do
  case "$1" in
    --data) data=$2; shift;;
    --attention) layers="$layers${layers:+, }\"$2\""; first=${first:-$2}; shift;;
    --seed) seed=$2; shift;;
    --out) out=$2; shift;;
    --protocol) protocol=$2; shift;;
  esac
  shift
done
mkdir -p "$out/checkpoints"
echo "epoch 1"
if [ "$seed" = "$FAIL" ]; then echo "saddle: the disk is full" >&2; echo "hint: empty it" >&2; exit 1; fi
if [ "$seed" = "$DIE" ]; then kill -9 $$; fi
if [ "$seed" = "$EMPTY" ]; then exit 0; fi
if [ -n "$SLOW" ]; then
  trap 'touch "$out/checkpoints/last.safetensors"; exit 130' INT
  echo ready >> "$CALLS"
  i=0; while [ $i -lt 200 ]; do sleep 0.05; i=$((i+1)); done
fi
[ -n "$PAUSE" ] && sleep "$PAUSE"
case "$first" in softmax) gain=0; multiply=1000;; *) gain=5; multiply=2000;; esac
tens=$((70 + gain + seed % 3))
name=${data##*/}
cat > "$out/result.json.new" <<END
{"schema":"saddle.result/1",
 "data":{"name":"$name","kind":"series","classes":["a","b"],
         "train":8,"validation":2,"test":100,"channels":1,"length":9},
 "attention":[$layers],"model":"flowformer","options":{"width":16},"seed":$seed,"protocol":"${protocol:-honest}",
 "epochs":5,"best_epoch":3,"stopped":"epochs",
 "test":{"accuracy":0.$tens,"loss":0.5,"count":100},"last":{"accuracy":0.69,"loss":0.6},
 "parameters":1234,"multiply_adds":$multiply,"train_seconds":1.5,"train_samples_per_second":640.5,
 "inference_samples_per_second":2000,"peak_memory_bytes":1048576,"threads":1,"precision":"float32",
 "head_distance":{"test":[{"layer":0,"mean":1.0,"std":0.1},{"layer":1,"mean":2.0,"std":0.1}]}}
END
if [ -n "$NUMBERS" ]; then
  sed -i -e 's/"classes":\["a","b"\]/"classes":[],"predicts":"numbers"/' -e 's/"accuracy":0.7/"rmse":7./' \
    -e 's/"last":.*},//' "$out/result.json.new"
fi
mv "$out/result.json.new" "$out/result.json"
)sh";

struct Result {
  int code = -1;
  std::string out, err;
};

class CompareCommand : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string(SADDLE_CLI).empty()) GTEST_SKIP() << "the command line is not built";
    std::string pattern = (fs::temp_directory_path() / "saddle-compare-XXXXXX").string();
    folder = mkdtemp(pattern.data());
    write(folder / "trainer", fake_trainer);
    fs::permissions(folder / "trainer", fs::perms::owner_all);
  }
  ~CompareCommand() override {
    std::error_code ignored;
    if (!folder.empty()) fs::remove_all(folder, ignored);
  }

  // `saddle compare` with these words, as in a shell; `before` are variables for the trainer.
  Result compare(const std::string& words, const std::string& before = "") const {
    return sh(before + " saddle compare " + words);
  }
  Result sh(const std::string& line) const {
    write(folder / "line.sh", "cd '" + folder.string() + "'\nexport PATH='" +
                                  fs::path(SADDLE_CLI).parent_path().string() +
                                  "':$PATH SADDLE_TRAINER=\"$PWD/trainer\" CALLS=\"$PWD/calls\"\n" + line + "\n");
    const int status = std::system(("bash '" + (folder / "line.sh").string() + "' >'" + (folder / "out").string() +
                                    "' 2>'" + (folder / "err").string() + "' </dev/null")
                                       .c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read(folder / "out"),
            read(folder / "err")};
  }
  json document(const std::string& words, const std::string& before = "") const {
    const Result result = compare(words + " --json", before);
    EXPECT_EQ(result.code, 0) << result.err;
    const json found = json::parse(result.out, nullptr, false);
    EXPECT_TRUE(found.is_object()) << result.out;
    return found;
  }
  std::vector<std::string> calls() const {
    std::vector<std::string> lines;
    std::ifstream in(folder / "calls");
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  fs::path folder;
  const std::string two = "--attention softmax --attention softmax+bn --data waves --out runs ";
};

TEST_F(CompareCommand, NamesakesAreRefusedBeforeAnythingIsTrained) {
  const Result result = compare("--data a/w.ts --data b/w.ts --out runs --seeds 0 --attention softmax");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("would both be called w"));
  EXPECT_TRUE(calls().empty());
}

TEST_F(CompareCommand, OptionsThatFailedAtOnceBindNobody) {
  EXPECT_EQ(compare("--data d --out runs --seeds 0 --attention softmax -- --epoch 3", "FAIL=0").code, 1);
  EXPECT_EQ(compare("--data d --out runs --seeds 0 --attention softmax -- --epochs 3").code, 0);
}

TEST_F(CompareCommand, WordsForTheTrainerMayFollowAnyOption) {
  const Result result = compare("--data d --out runs --seeds 0 --attention softmax -- --epochs 3");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(calls(), testing::ElementsAre(HasSubstr("--epochs 3")));
}

TEST_F(CompareCommand, ErrorsOfNumbersAreTheScore) {
  const auto group = document(two + "--seeds 0..2", "NUMBERS=1")["results"][0];
  EXPECT_EQ(group["score"], "rmse");
  const auto& rows = group["attentions"];
  EXPECT_NEAR(rows[0]["rmse"]["mean"].get<double>(), 7.1, 1e-12);
  EXPECT_EQ(rows[0]["accuracy"], nullptr);
  EXPECT_NEAR(rows[1]["difference"]["mean"].get<double>(), 0.5, 1e-12);
  const Result text = compare("runs --latex table.tex");
  EXPECT_THAT(text.out, AllOf(HasSubstr("RMSE"), HasSubstr("7.1 ± 0.1"), HasSubstr("+0.5"), Not(HasSubstr("%"))));
  EXPECT_THAT(read(folder / "table.tex"),
              AllOf(HasSubstr("of numbers the RMSE"), HasSubstr("softmax & $\\mathbf{7.1}")));
  // Beside a data set with classes there are no ranks.
  EXPECT_EQ(compare("--attention softmax --attention softmax+bn --data digits --out more --seeds 0").code, 0);
  const Result both = compare("runs more");
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_THAT(both.out, HasSubstr("no ranks: the errors of waves have a scale of their own"));
  EXPECT_EQ(compare("--attention softmax --data waves --out classes --seeds 7").code, 0);
  EXPECT_THAT(compare("runs classes").err, HasSubstr("some runs on waves predict classes, others numbers"));
}

TEST_F(CompareCommand, TrainsEveryCellAndComparesPairedBySeed) {
  const Result result = compare(two + "--seeds 0..2 --threads 2 -- --epochs 5");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("protocol honest"), HasSubstr("71.00 ± 1.00"), HasSubstr("76.00 ± 1.00"),
                                HasSubstr("+5.00 ± 0.00"), HasSubstr("baseline"), HasSubstr("69.00 ± 0.00")));
  EXPECT_THAT(result.err, HasSubstr("[6/6] waves, softmax+bn, seed 2: "));
  EXPECT_THAT(result.err, Not(HasSubstr("\r")));
  ASSERT_EQ(calls().size(), 6U);
  EXPECT_EQ(calls()[1],
            "train --data waves --attention softmax+bn --seed 0 --out runs/waves/softmax+bn/0 --threads 2 --epochs 5");
  EXPECT_TRUE(fs::exists(folder / "runs/waves/softmax/2/result.json"));
  EXPECT_THAT(read(folder / "runs/waves/softmax/2.log"), HasSubstr("epoch 1"));
}

TEST_F(CompareCommand, JsonCsvAndLatex) {
  const json found = document(two + "--seeds 0,2,5 --csv t.csv --latex t.tex --quiet");
  EXPECT_EQ(found["schema"], "saddle.compare/1");
  EXPECT_EQ(found["baseline"], "softmax");
  const json& rows = found["results"][0]["attentions"];
  EXPECT_EQ(found["results"][0]["protocol"], "honest");
  EXPECT_EQ(rows[0]["seeds"], json({0, 2, 5}));
  EXPECT_NEAR(rows[0]["accuracy"]["mean"].get<double>(), (0.70 + 0.72 + 0.72) / 3, 1e-12);
  EXPECT_EQ(rows[0]["accuracy"]["n"], 3);
  EXPECT_EQ(rows[0]["difference"], nullptr);
  EXPECT_NEAR(rows[1]["difference"]["mean"].get<double>(), 0.05, 1e-12);
  EXPECT_EQ(rows[1]["head_distance"]["mean"], 1.5);
  EXPECT_EQ(rows[1]["peak_memory_bytes"]["mean"], 1048576);
  EXPECT_EQ(found["statistics"], nullptr);
  EXPECT_EQ(found["cells"].size(), 6U);
  EXPECT_EQ(found["cells"][0]["state"], "trained");
  const std::string csv = read(folder / "t.csv");
  EXPECT_THAT(csv, testing::StartsWith("data,protocol,attention,seeds,accuracy_mean,accuracy_std,accuracy_n,"));
  EXPECT_THAT(csv, HasSubstr("\nwaves,honest,softmax+bn,0 2 5,0.76"));
  EXPECT_THAT(read(folder / "t.tex"), AllOf(HasSubstr("softmax+bn & $\\mathbf{76.33} \\pm 1.15$ \\\\"),
                                            HasSubstr("% protocol honest"), HasSubstr("\\toprule")));
}

TEST_F(CompareCommand, OneSeedHasNoDeviation) {
  const json found = document(two + "--seeds 3");
  EXPECT_EQ(found["results"][0]["attentions"][0]["accuracy"]["std"], nullptr);
  EXPECT_THAT(compare("runs").out, AllOf(HasSubstr("70.00"), Not(HasSubstr("70.00 ±"))));
}

TEST_F(CompareCommand, FinishedCellsAreSkipped) {
  ASSERT_EQ(compare(two + "--seeds 0,1").code, 0);
  const Result again = compare(two + "--seeds 0..2");
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(calls().size(), 6U);
  EXPECT_THAT(again.err, HasSubstr("[4/6] waves, softmax+bn, seed 1: finished before"));
  const json found = document(two + "--seeds 0..2");
  EXPECT_EQ(found["cells"][5]["state"], "skipped");
  EXPECT_EQ(calls().size(), 6U);
}

TEST_F(CompareCommand, OtherOptionsInTheSameFolderAreRefused) {
  ASSERT_EQ(compare(two + "--seeds 0 -- --epochs 5").code, 0);
  const Result other = compare(two + "--seeds 0..1 -- --epochs 6");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err,
              AllOf(HasSubstr("[\"--epochs\",\"5\"]"), HasSubstr("[\"--epochs\",\"6\"]"), HasSubstr("another --out")));
  EXPECT_EQ(calls().size(), 2U);

  write(folder / "c.toml", "[train]\nepochs = 3\n");
  ASSERT_EQ(compare("--attention softmax --data waves --out c --seeds 0 -- --config c.toml").code, 0);
  write(folder / "c.toml", "[train]\nepochs = 4\n");
  const Result changed = compare("--attention softmax --data waves --out c --seeds 0,1 -- --config c.toml");
  EXPECT_EQ(changed.code, 2);
  EXPECT_THAT(changed.err, HasSubstr("the configuration file has changed"));
}

TEST_F(CompareCommand, AFailedCellDoesNotStopTheOthers) {
  const Result result = compare(two + "--seeds 0..2", "FAIL=1");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("71.00 ± 1.41"));  // of two seeds
  EXPECT_THAT(result.err, AllOf(HasSubstr("2 of 6 cells failed:"),
                                HasSubstr("waves, softmax, seed 1: exit code 1: the disk is full\n    log: "),
                                HasSubstr("hint: the same command tries them again")));
  EXPECT_EQ(calls().size(), 6U);
  EXPECT_EQ(compare(two + "--seeds 0..2").code, 0);
  EXPECT_EQ(calls().size(), 8U);
  EXPECT_THAT(calls().back(), HasSubstr("--force"));  // there was no checkpoint to resume from
}

TEST_F(CompareCommand, TrainersThatDieOrWriteNothing) {
  const Result result = compare(two + "--seeds 0..2", "DIE=0 EMPTY=1");
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("seed 0: ended by signal 9"), HasSubstr("seed 1: ended without a result"),
                                HasSubstr("4 of 6 cells failed")));
  const Result none = compare(two + "--seeds 9", "FAIL=9");
  EXPECT_EQ(none.code, 1);
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(sh("SADDLE_TRAINER=/nowhere saddle compare " + two + "--seeds 8").code, 1);
  EXPECT_THAT(read(folder / "err"), HasSubstr("cannot start /nowhere: No such file"));
}

TEST_F(CompareCommand, BegunCellsAreResumed) {
  fs::create_directories(folder / "runs/waves/softmax/1/checkpoints");
  write(folder / "runs/waves/softmax/1/checkpoints/last.safetensors", "");
  const json found = document(two + "--seeds 0,1");
  EXPECT_EQ(found["cells"][2]["state"], "resumed");
  EXPECT_THAT(calls()[2], AllOf(HasSubstr("--seed 1"), HasSubstr("--resume"), Not(HasSubstr("--force"))));
  EXPECT_THAT(calls()[0], Not(HasSubstr("--resume")));
}

TEST_F(CompareCommand, InterruptIsPassedOnOnce) {
  const Result result = sh("export SLOW=1\n(trap - INT; exec saddle compare " + two +
                           "--seeds 0..2 --jobs 2) & pid=$!\n"
                           "until [ \"$(cat calls 2>/dev/null | grep -c ready)\" -ge 2 ]; do sleep 0.02; done\n"
                           "kill -INT $pid; wait $pid");
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("interrupted: 0 of 6 cells are finished"), HasSubstr("run the same command")));
  EXPECT_EQ(calls().size(), 4U);  // two trainers, each of which called and was ready
  EXPECT_TRUE(fs::exists(folder / "runs/waves/softmax/0/checkpoints/last.safetensors"));
  EXPECT_EQ(compare(two + "--seeds 0..2").code, 0);
  EXPECT_THAT(calls()[4], HasSubstr("--resume"));
}

// What the trainers leave when the comparison is killed can be resumed.
TEST_F(CompareCommand, TrainersEndWithIt) {
  const Result result = sh(
      "export SLOW=1\nsaddle compare " + two +
      "--seeds 0 & pid=$!\nwhile ! grep -q ready calls 2>/dev/null; do sleep 0.02; done\nkill -9 $pid\nwait $pid\n"
      "for i in $(seq 100); do [ -e runs/waves/softmax/0/checkpoints/last.safetensors ] && exit 9; sleep 0.05; done");
  EXPECT_EQ(result.code, 9);
}

TEST_F(CompareCommand, JobsRunSideBySideAndShareThreads) {
  const Result result = sh("time -p PAUSE=0.5 saddle compare " + two + "--seeds 0..1 --jobs 4 --threads 4");
  ASSERT_EQ(result.code, 0) << result.err;
  const auto at = result.err.find("real ");
  ASSERT_NE(at, std::string::npos) << result.err;
  EXPECT_LT(std::stod(result.err.substr(at + 5)), 1.9);  // one after the other takes 2 s
  EXPECT_THAT(calls()[0], HasSubstr("--threads 1"));
}

TEST_F(CompareCommand, OnlyOneComparisonWorksInAFolder) {
  const Result result = sh("SLOW=1 saddle compare " + two +
                           "--seeds 0 & pid=$!\nwhile ! grep -q ready calls 2>/dev/null; do sleep 0.02; done\n"
                           "saddle compare " +
                           two + "--seeds 1; code=$?\nkill -TERM $pid; wait $pid; echo $?; exit $code");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("another comparison is working in runs"));
  EXPECT_EQ(result.out, "143\n");
}

TEST_F(CompareCommand, NamesBecomeSafeFolders) {
  const std::string odd =
      "--attention 'softmax+bn(beta=0.6)' --attention 'softmax / linear' --data ../x/waves --seeds 0 ";
  ASSERT_EQ(compare(odd + "--out runs").code, 0);
  EXPECT_TRUE(fs::exists(folder / "runs/%2E.%2Fx%2Fwaves/softmax+bn(beta=0.6)/0/result.json"));
  EXPECT_TRUE(fs::exists(folder / "runs/%2E.%2Fx%2Fwaves/softmax%20%2F%20linear/0/result.json"));
  EXPECT_THAT(calls()[1], HasSubstr("--attention softmax --attention linear "));
  EXPECT_THAT(compare("runs").out, HasSubstr("softmax / linear"));
}

TEST_F(CompareCommand, SeveralDataSetsGetRanks) {
  std::string data;
  for (const char* name : {"one", "two", "three", "four", "five", "six"}) data += std::string(" --data ") + name;
  const std::string three = "--attention softmax --attention softmax+bn --attention linear --seeds 0 --out runs" + data;
  const json found = document(three);
  const json& statistics = found["statistics"];
  EXPECT_EQ(statistics["alpha"], 0.1);
  EXPECT_EQ(statistics["ranks"][0], json({{"name", "softmax"}, {"rank", 3.0}}));
  EXPECT_EQ(statistics["ranks"][1]["rank"], 1.5);
  EXPECT_EQ(statistics["cliques"], json::parse(R"([["softmax+bn","linear"]])"));
  // Six equal differences: 2 / 2^6, times three pairs.
  EXPECT_NEAR(statistics["p_values"][0]["p"].get<double>(), 0.03125, 1e-15);
  EXPECT_NEAR(statistics["p_values"][0]["holm"].get<double>(), 0.09375, 1e-15);
  EXPECT_EQ(statistics["p_values"][2]["p"], 1.0);
  EXPECT_LT(statistics["friedman_p"].get<double>(), 0.01);
  const Result text = compare("runs --alpha 0.05 --test nemenyi");
  EXPECT_THAT(text.out, AllOf(HasSubstr("6 data sets"), HasSubstr("Nemenyi"), HasSubstr("critical difference"),
                              HasSubstr("Friedman: chi-squared")));
  EXPECT_THAT(compare("runs --latex -").err, Not(HasSubstr("defect")));
}

TEST_F(CompareCommand, IncompleteDataSetsAreLeftOutOfTheRanks) {
  for (const char* name : {"one", "two", "three"})
    ASSERT_EQ(compare("--attention softmax --attention linear --seeds 0 --out runs --data " + std::string(name)).code,
              0);
  fs::remove_all(folder / "runs/two/linear");
  const json found = document("runs");
  EXPECT_EQ(found["statistics"]["data"], json({"one", "three"}));
  EXPECT_EQ(found["notes"][0], "two is left out of the ranks: not every attention was run on it");
}

TEST_F(CompareCommand, CollectsRunsThatExist) {
  ASSERT_EQ(compare(two + "--seeds 0,1").code, 0);
  fs::create_directories(folder / "other/deep");
  fs::rename(folder / "runs/waves/softmax", folder / "other/deep/by-hand");
  fs::create_directories(folder / "other/begun");
  write(folder / "other/begun/metrics.jsonl", "");
  const Result result = compare("runs other --baseline softmax+bn");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("-5.00 ± 0.00"), HasSubstr("begun is not finished and left out")));

  // The same cell twice is no second seed.
  fs::copy(folder / "other/deep/by-hand/0", folder / "copy", fs::copy_options::recursive);
  const Result twice = compare("runs other copy");
  EXPECT_EQ(twice.code, 2);
  EXPECT_THAT(twice.err, HasSubstr("two runs are waves, softmax, seed 0: "));
  EXPECT_EQ(compare("runs --baseline cosine").code, 2);
}

TEST_F(CompareCommand, ProtocolsAreNotMixed) {
  ASSERT_EQ(compare(two + "--seeds 0").code, 0);
  ASSERT_EQ(
      compare("--attention softmax --attention softmax+bn --data waves --out paper --seeds 0 -- --protocol paper").code,
      0);
  const json found = document("runs paper");
  ASSERT_EQ(found["results"].size(), 2U);
  EXPECT_EQ(found["notes"].back(), "there are no ranks: runs of two protocols are not comparable");
  EXPECT_THAT(compare("paper").out, HasSubstr("chosen by the accuracy on the test split, which flatters"));
}

TEST_F(CompareCommand, DifferencesBetweenRunsAreNoted) {
  ASSERT_EQ(compare(two + "--seeds 0").code, 0);
  const fs::path file = folder / "runs/waves/softmax/0/result.json";
  json result = json::parse(read(file));
  result["epochs"] = 100;
  result["threads"] = 2;
  result["options"]["width"] = 99;
  write(file, result.dump());
  EXPECT_THAT(compare("runs").out, AllOf(HasSubstr("differ in epochs: 100, 5"), HasSubstr("rates are not comparable"),
                                         HasSubstr("differ in width of the model: 16, 99")));
}

// Encodings of times are compared as attentions are: labels tell them apart, and no note has to.
TEST_F(CompareCommand, EncodingsOfTimesAreNoDifferenceToNote) {
  ASSERT_EQ(compare(two + "--seeds 0").code, 0);
  for (const auto& [attention, time] : {std::pair{"softmax", "positions"}, std::pair{"softmax+bn", "time_mercer"}}) {
    const fs::path file = folder / "runs/waves" / attention / "0/result.json";
    json result = json::parse(read(file));
    result["options"]["time"] = time;
    write(file, result.dump());
  }
  const json found = document("runs");
  EXPECT_EQ(found["results"][0]["attentions"][1]["attention"], "softmax+bn, time_mercer");
  EXPECT_THAT(found["notes"].dump(), Not(HasSubstr("time of the model")));
}

TEST_F(CompareCommand, RunsOnOtherSplitsAreNoOtherSeeds) {
  ASSERT_EQ(compare(two + "--seeds 0,1").code, 0);
  for (const std::string seed : {"0", "1"})
    for (const char* attention : {"softmax", "softmax+bn"}) {
      const fs::path file = folder / "runs/waves" / attention / seed / "result.json";
      json result = json::parse(read(file));
      result["data"]["split"] = "fixed split " + seed;
      write(file, result.dump());
    }
  EXPECT_THAT(compare("runs").out, HasSubstr("differ in the split: fixed split 0, fixed split 1"));
}

TEST_F(CompareCommand, RunsWithoutATestScoreAreLeftOut) {
  ASSERT_EQ(compare(two + "--seeds 0,1").code, 0);
  const auto forget = [&](const std::string& run) {
    json result = json::parse(read(folder / run / "result.json"));
    result.erase("test");
    write(folder / run / "result.json", result.dump());
  };
  forget("runs/waves/softmax/1");
  const json found = document("runs");
  EXPECT_EQ(found["results"][0]["attentions"][0]["accuracy"]["n"], 1);
  EXPECT_THAT(found["notes"].dump(), HasSubstr("softmax/1 has no test score and is left out"));
  const Result page = compare("runs --html page.html");
  EXPECT_EQ(page.code, 0) << page.err;
  for (const char* run : {"softmax/0", "softmax+bn/0", "softmax+bn/1"}) forget(std::string("runs/waves/") + run);
  const Result nothing = compare("runs");
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("no run has a test score"));
}

TEST_F(CompareCommand, NamesFromFilesDoNotReachTheTerminal) {
  ASSERT_EQ(compare(two + "--seeds 0").code, 0);
  const fs::path file = folder / "runs/waves/softmax/0/result.json";
  json result = json::parse(read(file));
  result["data"]["name"] = "red\033[31m_100%";
  write(file, result.dump());
  const Result shown = compare("runs --csv t.csv --latex t.tex");
  EXPECT_EQ(shown.code, 0);
  EXPECT_THAT(shown.out, AllOf(Not(HasSubstr("\033")), HasSubstr("red?[31m_100%")));
  EXPECT_THAT(read(folder / "t.tex"), HasSubstr("red?[31m\\_100\\%"));
}

TEST_F(CompareCommand, WrongFilesAndWords) {
  const std::pair<std::string, std::string> wrong[] = {
      {"", "nothing to compare"},
      {"missing", "no such folder"},
      {"--attention softmax --out runs", "needs --data"},
      {"--attention softmax --data waves", "needs --out"},
      {two + "--seeds 4..0", "4 comes after 0"},
      {two + "--seeds 0,1,0", "given twice"},
      {two + "--seeds 0..2,2", "given twice"},
      {two + "--seeds x", "'x' is not a whole number"},
      {two + "--seeds -1", "--seeds"},
      {two + "--seeds 0..", "'' is not a whole number"},
      {two + "--seeds 0..99999999", "more than 1000 seeds"},
      {two + "--attention softmax+bn --seeds 0", "are the same"},
      {two + "--attention softmx --seeds 0", "softmx"},
      {two + "--data waves --seeds 0", "given twice"},
      {two + "--jobs 0", "--jobs"},
      {two + "--alpha 1", "--alpha"},
      {two + "--test t", "wilcoxon"},
      {two + "-- --seed 3", "--seed is set by the comparison"},
      {two + "-- --out=x", "--out is set by the comparison"},
      {two + "-- --resume", "cells that were begun are resumed"},
      {two + "-- folder", "only options of saddle train follow"},
      {two + "--epochs 3", "unknown option '--epochs'"},
      {"runs --data waves", "is for training"},
      {"runs --jobs 2", "is for training"},
  };
  for (const auto& [words, message] : wrong) {
    const Result result = compare(words);
    EXPECT_THAT(result.code, testing::AnyOf(1, 2)) << words;
    EXPECT_THAT(result.err, AllOf(HasSubstr(message), HasSubstr("hint: "), Not(HasSubstr("defect")))) << words;
    EXPECT_EQ(result.out, "") << words;
  }
  EXPECT_EQ(calls().size(), 0U);
  fs::create_directories(folder / "bad");
  write(folder / "bad/result.json", "{\"schema\":");
  EXPECT_EQ(compare("bad").code, 3);
  fs::create_directories(folder / "strange");
  write(folder / "strange/compare.json", "[]");
  EXPECT_EQ(compare("--attention softmax --data waves --seeds 0 --out strange").code, 3);
  EXPECT_EQ(compare(two + "--seeds 0 --csv missing/t.csv").code, 1);
  EXPECT_EQ(calls().size(), 0U);
}

}  // namespace
}  // namespace saddle::cli
