#include "model_run.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report.hpp"
#include "saddle/base/error.hpp"

namespace saddle::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

// A side that answers every set-up and every round with the same words.
std::shared_ptr<Child> answering(const std::string& set_up, const std::string& round) {
  return std::make_shared<Child>(std::vector<std::string>{"sh", "-c",
                                                          "while read line; do case \"$line\" in *setup*) echo '" +
                                                              set_up + "';; *) echo '" + round + "';; esac; done"},
                                 std::map<std::string, std::string>{});
}

std::string set_up_answer(const std::string& more) { return R"({"ok":true,)" + more + "}"; }
std::string seconds(const std::string& value) { return R"({"ok":true,"seconds":)" + value + "}"; }

ModelEntry entry() {
  Bar speed;
  speed.kind = Bar::Kind::peer;
  speed.of = "torch";
  speed.at_least = 2;
  Bar memory;
  memory.kind = Bar::Kind::peer_memory;
  memory.of = "torch";
  memory.at_most = 0.5;
  ModelEntry e;
  e.row = {2, 8, 16, 2, 1, DType::f32, 1};
  e.work = "<tiny>";
  e.bars = {speed, memory};
  return e;
}

RunOptions briefly() {
  RunOptions options;
  options.rounds = {0.01, 2, 2};
  return options;
}

// Ours takes 1 s and 100 bytes, torch 3 s and 400 bytes, 2 s if it spins, 5 s and 300 bytes as installed; gradients
// differ by `error`.
ModelResult run_with(const std::string& error, ModelEntry e = entry()) {
  return run_model(e, briefly(), [&](Side side, const ModelRow&) {
    if (side == Side::own) return answering(set_up_answer(R"("memory":100)"), seconds("1"));
    const bool tuned = side != Side::torch_as_installed;
    return answering(set_up_answer(fmt::format(R"("memory":{},"disagreement":{})", tuned ? 400 : 300, error)),
                     seconds(!tuned                ? "5"
                             : side == Side::torch ? "3"
                                                   : "2"));
  });
}

TEST(ModelRunTest, SidesThatAgreeAreTimedAndJudged) {
  const ModelResult result = run_with("1e-6");
  EXPECT_TRUE(result.check.passed);
  EXPECT_EQ(result.check.error, 1e-6);
  ASSERT_EQ(result.bars.size(), 2u);
  EXPECT_EQ(result.bars[0].value, 3);
  EXPECT_EQ(result.bars[0].as_installed, 5);
  EXPECT_EQ(result.bars[0].verdict, Verdict::reached);
  EXPECT_DOUBLE_EQ(result.bars[1].value.value_or(0), 100.0 / 300);  // the setting in which torch needs less
  EXPECT_EQ(result.bars[1].verdict, Verdict::reached);
  EXPECT_TRUE(result.passed());
}

TEST(ModelRunTest, ThreadsThatNeverSleepTakePartInBf16) {
  ModelEntry e = entry();
  EXPECT_FALSE(run_with("0", e).spinning.timing);
  e.row.dtype = DType::bf16;
  const ModelResult result = run_with("0", e);
  EXPECT_EQ(result.bars[0].value, 3);
  EXPECT_EQ(result.ratio(result.spinning), 2);
  Report report;
  report.models = {result};
  const Json peers = to_json(report)["rows"][0]["peers"];
  ASSERT_EQ(peers.size(), 3u);
  EXPECT_EQ(peers[1]["name"], "torch spinning");
  EXPECT_EQ(peers[1]["ratio"], 2);
  EXPECT_THAT(to_html(report), HasSubstr("2.00x"));
}

TEST(ModelRunTest, AMissedBarFails) {
  ModelEntry e = entry();
  e.bars[0].at_least = 3.1;
  const ModelResult result = run_with("0", e);
  EXPECT_EQ(result.bars[0].verdict, Verdict::missed);
  EXPECT_EQ(result.bars[1].verdict, Verdict::reached);
  EXPECT_FALSE(result.passed());
}

TEST(ModelRunTest, SidesThatDisagreeHaveNoTime) {
  for (const char* error : {"2e-4", "1e300", "null", "\"nan\""}) {
    const ModelResult result = run_with(error);
    EXPECT_FALSE(result.check.passed) << error;
    EXPECT_FALSE(result.own.timing) << error;
    EXPECT_FALSE(result.torch.timing) << error;
    EXPECT_EQ(result.bars[0].verdict, Verdict::missed) << error;
    EXPECT_EQ(result.bars[1].verdict, Verdict::missed) << error;
    EXPECT_FALSE(result.passed()) << error;
  }
  ModelEntry e = entry();
  e.row.dtype = DType::bf16;
  EXPECT_TRUE(run_with("1e-2", e).passed());
  EXPECT_FALSE(run_with("1e-1", e).passed());
}

TEST(ModelRunTest, ASideThatIsAbsentIsNoMiss) {
  for (const Side absent : {Side::own, Side::torch}) {
    const ModelResult result = run_model(entry(), briefly(), [&](Side side, const ModelRow&) {
      if (side == absent) throw IoError("it was not built");
      return answering(set_up_answer(R"("memory":100,"disagreement":0)"), seconds("1"));
    });
    EXPECT_THAT(result.unmeasured, HasSubstr("it was not built"));
    EXPECT_FALSE(result.own.timing);
    EXPECT_EQ(result.bars[0].verdict, Verdict::not_measured);
    EXPECT_THAT(result.bars[0].reason, HasSubstr("it was not built"));
    EXPECT_TRUE(result.passed());
  }
  ModelEntry alone = entry();
  alone.peers.clear();
  EXPECT_EQ(run_with("0", alone).unmeasured, "torch was not asked");
}

TEST(ModelRunTest, OurSideMustNotFail) {
  const auto with_own = [](const std::string& set_up, const std::string& round) {
    return run_model(entry(), briefly(), [&](Side side, const ModelRow&) {
      return side == Side::own ? answering(set_up, round)
                               : answering(set_up_answer(R"("memory":400,"disagreement":0)"), seconds("1"));
    });
  };
  const std::string good = set_up_answer(R"("memory":100)"), broken = R"({"ok":false,"reason":"it broke"})";
  for (const ModelResult& result : {with_own(broken, seconds("1")), with_own(good, broken)}) {
    EXPECT_TRUE(result.red);
    EXPECT_EQ(result.own.reason, "it broke");
    EXPECT_EQ(result.bars[0].verdict, Verdict::missed);
    EXPECT_FALSE(result.passed());
  }
}

TEST(ModelRunTest, ReportsAsJsonAndAsAPage) {
  Report report;
  report.suite = "training";
  report.models = {run_with("1e-6"), run_with("null")};
  const Json json = to_json(report);
  ASSERT_EQ(json["rows"].size(), 2u);
  const Json& row = json["rows"][0];
  EXPECT_EQ(row["kind"], "model");
  EXPECT_EQ(row["dims"]["width"], 16);
  EXPECT_EQ(row["seconds"]["best"], 1);
  EXPECT_EQ(row["peers"][0]["ratio"], 3);
  EXPECT_EQ(row["peers"][1]["memory"], 300);
  EXPECT_EQ(row["bars"][1]["verdict"], "reached");
  EXPECT_TRUE(json["rows"][1]["check"]["error"].is_null());
  EXPECT_TRUE(json["rows"][1]["seconds"].is_null());
  EXPECT_FALSE(json["passed"]);
  const std::string page = to_html(report);
  EXPECT_THAT(page, HasSubstr("&lt;tiny&gt;"));
  EXPECT_THAT(page, HasSubstr("3.00x"));
  EXPECT_THAT(page, Not(HasSubstr("Limits of this machine")));
}

}  // namespace
}  // namespace saddle::bench
