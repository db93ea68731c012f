// saddle train, eval and predict as programs: interrupted, killed, out of space, with several workers.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <sstream>

#include "process.hpp"

namespace saddle::e2e {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class Training : public CommandLine {
 protected:
  void SetUp() override {
    CommandLine::SetUp();
    if (!has_training()) GTEST_SKIP() << "this build has no saddle-torch: configure with -DSADDLE_TORCH=ON";
  }
  static std::string train(const std::string& rest) {
    return "saddle train --data examples/data/waves --set model.width=16 --set model.heads=2 --threads 1 " + rest;
  }
  // Ctrl-C once the run has evaluated something for the first time since then.
  Result interrupted(const std::string& line, const std::string& run) const {
    return sh("[ -e " + run + "/metrics.jsonl ] && before=$(wc -c < " + run + "/metrics.jsonl); " + line +
              " & process=$!; until [ \"$(wc -c < " + run +
              "/metrics.jsonl 2>/dev/null || echo 0)\" -gt \"${before:-0}\" ]; do sleep 0.05; done; "
              "kill -INT $process; wait $process");
  }
  std::string file(const std::string& name) const { return read_file(folder / "work" / name); }
  nlohmann::json result(const std::string& run) const { return nlohmann::json::parse(file(run + "/result.json")); }
};

TEST_F(Training, KilledAtAnyMomentAndResumedGivesTheSameBits) {
  const std::string what = train("--epochs 30 --checkpoint-every 0.05 --ema 0.9 ");
  ASSERT_EQ(sh(what + "--out whole").code, 0);
  // Later and later, so that every stage of a run is hit; the last start is left alone.
  int kills = 0;
  for (int attempt = 0; attempt < 6; ++attempt) {
    const std::string resume = fs::exists(folder / "work/cut/config.toml") ? " --resume" : " --force";
    const Result killed =
        sh("timeout -s KILL " + std::to_string(0.5 + 0.15 * attempt) + " " + what + "--out cut" + resume);
    kills += killed.code == 137 ? 1 : 0;
  }
  EXPECT_GT(kills, 0);
  const bool started = fs::exists(folder / "work/cut/config.toml");
  const Result last = sh(what + "--out cut" + (started ? " --resume" : " --force"));
  ASSERT_EQ(last.code, 0) << last.err;
  EXPECT_EQ(file("cut/checkpoints/best.safetensors"), file("whole/checkpoints/best.safetensors"));
  EXPECT_EQ(file("cut/predictions.csv"), file("whole/predictions.csv"));
  EXPECT_EQ(result("cut")["test"], result("whole")["test"]);
}

TEST_F(Training, AnInterruptWritesACheckpointAndEndsWith130) {
  EXPECT_EQ(interrupted(train("--epochs 100000 --out run"), "run").code, 130);
  EXPECT_TRUE(fs::exists(folder / "work/run/checkpoints/last.safetensors"));
  EXPECT_EQ(interrupted("saddle train --resume --out run", "run").code, 130);
  EXPECT_THAT(sh(train("--epochs 100000 --out run")).err, HasSubstr("--resume to go on with it"));
  EXPECT_FALSE(fs::exists(folder / "work/run/result.json"));
}

TEST_F(Training, WorkersGiveWhatOneProcessGives) {
  for (const std::string model : {"flowformer", "mvts"}) {  // layer norm; batch norm, synchronised
    const std::string what =
        train("--epochs 3 --batch 8 --set model.dropout=0 --set model.attention_dropout=0 --model " + model + " ");
    ASSERT_EQ(sh(what + "--out one-" + model).code, 0);
    const Result two = sh(what + "--workers 2 --out two-" + model);
    ASSERT_EQ(two.code, 0) << two.err;
    const double one = result("one-" + model)["test"]["loss"], both = result("two-" + model)["test"]["loss"];
    EXPECT_NEAR(one, both, 2e-3 * std::abs(one)) << model;
    EXPECT_EQ(result("two-" + model)["workers"], 2);
  }
}

TEST_F(Training, WorkersOnDifferentMachines) {
  // Two network namespaces joined by a cable, each with a folder of its own.
  const std::string id = std::to_string(getpid());
  const std::string up = "set -e; for n in 1 2; do ip netns add sad$n-" + id + "; done; ip link add sad1-" + id +
                         " type veth peer name sad2-" + id +
                         "; for n in 1 2; do mkdir m$n; ln -s ../examples m$n/examples; ip link set sad$n-" + id +
                         " netns sad$n-" + id + "; ip -n sad$n-" + id + " addr add 10.77.0.$n/24 dev sad$n-" + id +
                         "; ip -n sad$n-" + id + " link set sad$n-" + id + " up; ip -n sad$n-" + id +
                         " link set lo up; done";
  const std::string down = "for n in 1 2; do ip netns del sad$n-" + id + "; done";
  if (sh(up).code != 0) {
    sh(down);
    GTEST_SKIP() << "may not make network namespaces here, or the program ip (package iproute2) is missing";
  }
  const std::string what = train("--epochs 3 --batch 8 --set model.dropout=0 --set model.attention_dropout=0 --out ");
  const Result both =
      sh("export WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29511; (cd m2; RANK=1 ip netns exec sad2-" + id + " " +
         what + "run; echo second $?) & (cd m1; RANK=0 ip netns exec sad1-" + id + " " + what +
         "run; echo first $?); wait");
  sh(down);
  EXPECT_THAT(both.out, HasSubstr("first 0")) << both.err;
  EXPECT_THAT(both.out, HasSubstr("second 0")) << both.err;
  ASSERT_EQ(sh(what + "one").code, 0);
  const double one = result("one")["test"]["loss"];
  EXPECT_NEAR(result("m1/run")["test"]["loss"].get<double>(), one, 1e-5 * one);
  EXPECT_FALSE(fs::exists(folder / "work/m2/run")) << "the folder is that of rank 0";
}

TEST_F(Training, AKilledWorkerStopsTheOthersWithACheckpoint) {
  for (const int rank : {0, 1}) {
    const std::string run = "run" + std::to_string(rank);
    // Killed once it has evaluated something, so that all workers are in the midst of it.
    const std::string is_it =
        "grep -qz '^" + run + "$' $p/cmdline && grep -qz '^RANK=" + std::to_string(rank) + "$' $p/environ";
    const Result killed = sh("(" + train("--epochs 100000 --workers 2 --out " + run) + "; echo code $?) & until [ -s " +
                             run + "/metrics.jsonl ]; do sleep 0.1; done; for p in /proc/[0-9]*; do if " + is_it +
                             "; then kill -KILL ${p#/proc/}; fi; done 2>/dev/null; wait");
    EXPECT_THAT(killed.out, HasSubstr("code 1")) << killed.err;
    EXPECT_TRUE(fs::exists(folder / "work" / run / "checkpoints/last.safetensors")) << killed.err;
    EXPECT_THAT(killed.err, HasSubstr("wrote a checkpoint behind update")) << killed.err;
    const Result resumed = sh("saddle train --resume --budget 0.001 --out " + run);
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_THAT(resumed.err, HasSubstr("resuming behind update"));
  }
}

TEST_F(Training, AFullDiskIsAnErrorAndTheLastCheckpointStays) {
  if (sh("mkdir small && mount -t tmpfs -o size=900k tmpfs small").code != 0)
    GTEST_SKIP() << "may not mount a small file system here";
  ASSERT_EQ(interrupted(train("--epochs 100000 --out small/run"), "small/run").code, 130);
  const std::string before = file("small/run/checkpoints/last.safetensors");
  EXPECT_FALSE(before.empty());
  sh("cat /dev/zero > small/filler");
  const Result full = sh("saddle train --resume --out small/run");
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.err, HasSubstr("No space left"));
  sh("rm small/filler");
  EXPECT_EQ(interrupted("saddle train --resume --out small/run", "small/run").code, 130);
  sh("umount small");
}

TEST_F(Training, WrongInputIsExplained) {
  const auto says = [&](const std::string& line, int code, const std::string& text) {
    const Result wrong = sh(line);
    EXPECT_EQ(wrong.code, code) << line << wrong.err;
    EXPECT_THAT(wrong.err, HasSubstr(text)) << line;
  };
  says("saddle train --data examples/data/wave --out x", 2, "wave");
  says(train("--attention softmax+bm --out x"), 2, "bm");
  says(train("--optimizer adamm --out x"), 2, "did you mean 'adam");
  says(train("--set train.epocs=3 --out x"), 2, "did you mean 'train.epochs'");
  says(train("--set model.widht=3 --out x"), 2, "did you mean 'width'");
  says(train("--epochs 1 --out examples/data/waves/waves_TRAIN.ts"), 1, "waves_TRAIN.ts");
  says("saddle train --resume --out nowhere", 2, "no run that could be resumed");
  says("saddle eval nowhere", 1, "nowhere");
  write_file(folder / "work/bad.toml", "[train]\nlr = \"fast\"\n");
  says(train("--config bad.toml --out x"), 3, "bad.toml:2");
  EXPECT_FALSE(fs::exists(folder / "work/x/result.json"));
}

TEST_F(Training, SettingsComeFromAllSides) {
  write_file(folder / "work/a.toml", "attention = \"softmax+bn\"\n[train]\nlr = 0.5\nepochs = 7\nbatch = 4\n");
  const std::string printed =
      sh("SADDLE_TRAIN_EPOCHS=9 saddle train --data examples/data/waves --config a.toml --batch 3 --print-config").out;
  EXPECT_THAT(printed, HasSubstr("lr = 0.5  # a.toml:3"));
  EXPECT_THAT(printed, HasSubstr("epochs = 9  # environment SADDLE_TRAIN_EPOCHS"));
  EXPECT_THAT(printed, HasSubstr("batch = 3  # flag"));
  EXPECT_THAT(printed, HasSubstr("attention = 'softmax+bn'  # a.toml:1"));
  EXPECT_THAT(printed, HasSubstr("optimizer = 'radam'  # recipe for series"));
  EXPECT_THAT(printed, HasSubstr("dims = "));
  const auto document = json("saddle train --data examples/data/waves --lr 0.25 --print-config --json");
  EXPECT_EQ(document["train"]["lr"]["value"], 0.25);
  EXPECT_EQ(document["train"]["lr"]["origin"], "flag");
  EXPECT_EQ(document["train"]["inspect"]["value"], true);
  EXPECT_EQ(document["model"]["name"]["value"], "flowformer");
}

TEST_F(Training, EvalAndPredictAgreeWithTheRun) {
  ASSERT_EQ(sh(train("--epochs 3 --out run")).code, 0);
  EXPECT_EQ(json("saddle eval run --json")["accuracy"], result("run")["test"]["accuracy"]);
  ASSERT_EQ(sh("saddle predict run examples/data/waves/waves_TEST.ts --out p.csv").code, 0);
  EXPECT_EQ(file("p.csv"), file("run/predictions.csv"));
  const auto predicted = json("saddle predict run examples/data/waves/waves_TEST.ts --json");
  double sum = 0;
  for (const double p : predicted["samples"][0]["probabilities"]) sum += p;
  EXPECT_NEAR(sum, 1, 1e-6);
}

}  // namespace
}  // namespace saddle::e2e
