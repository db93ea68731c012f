#include "run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "plot.hpp"
#include "report.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/log.hpp"
#include "saddle/primal/reference.hpp"

namespace saddle::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

class Run : public testing::Test {
 protected:
  Run() { set_log_level(LogLevel::error); }
  ~Run() override { set_log_level(LogLevel::info); }
};

Entry entry(const std::string& attention, Dims dims, Pass pass = Pass::forward) {
  Entry e;
  e.row.attention = attention;
  e.row.dims = dims;
  e.row.pass = pass;
  return e;
}

RunOptions briefly() {
  RunOptions options;
  options.rounds = {0.01, 2, 2};
  return options;
}

// A row in a process of its own that fails is red, with the reason, and does not take the suite with it.
TEST_F(Run, ARowThatCannotRunOnceIsRed) {
  Entry e = entry("softmax", {1, 1, 16, 16, 8, 8});
  e.once = true;
  RunOptions options = briefly();
  options.self = "/nowhere/saddle";
  Result result = run_entry(e, options);
  conclude(result, {Limits{}});
  EXPECT_FALSE(result.own.refused.empty());
  EXPECT_FALSE(result.own.timing);
  EXPECT_FALSE(result.passed());
}

TEST(Statistics, MinimumAndMedian) {
  EXPECT_EQ(summarise({3, 1, 2}).best, 1);
  EXPECT_EQ(summarise({3, 1, 2}).median, 2);
  EXPECT_EQ(summarise({4, 1, 2, 3}).median, 2.5);
  EXPECT_EQ(summarise({5}).rounds, 1);
}

TEST(Statistics, AMinimumIsConfirmedByItsNeighbours) {
  EXPECT_FALSE(is_confirmed({}));
  EXPECT_FALSE(is_confirmed({1, 1.01}));
  EXPECT_FALSE(is_confirmed({2, 1, 2, 2, 1.05, 2}));
  EXPECT_TRUE(is_confirmed({2, 1, 1.02, 2, 1.01}));
}

TEST(LimitsTest, EveryQuantityIsMeasuredAndNeverLowered) {
  auto limits = measure_limits(best_isa(), {1}, {0.001, false});
  ASSERT_EQ(limits.size(), 1u);
  for (double value : {limits[0].fma_f32, limits[0].fma_f64, limits[0].exp_f32, limits[0].exp_f64}) EXPECT_GT(value, 0);
  EXPECT_EQ(limits[0].amx_bf16 > 0, best_isa() == Isa::amx);
  EXPECT_EQ(limits[0].triad, 0);
  Limits more = limits[0];
  const double before = limits[0].fma_f64;
  more.fma_f32 *= 2;
  more.fma_f64 /= 2;
  improve(limits, {more});
  EXPECT_EQ(limits[0].fma_f32, more.fma_f32);
  EXPECT_EQ(limits[0].fma_f64, before);
}

TEST(LimitsTest, OtherThreadCountsAreScaled) {
  Limits one, two;
  one.fma_f32 = 10;
  two.threads = 2;
  two.fma_f32 = 18;
  EXPECT_EQ(limits_for({one, two}, 1, 8).fma_f32, 10);
  EXPECT_EQ(limits_for({one, two}, 2, 8).fma_f32, 18);
  EXPECT_EQ(limits_for({one, two}, 4, 8).fma_f32, 36);
  EXPECT_EQ(limits_for({one, two}, 4, 3).fma_f32, 27);
  EXPECT_EQ(limits_for({one, two}, 4, 2).fma_f32, 18);
  EXPECT_EQ(limits_for({one, two}, 4, 1).fma_f32, 18);
}

TEST_F(Run, EveryMechanismPassesItsCheck) {
  for (const char* attention : {"softmax", "softmax+causal", "softmax+bn+causal", "softmax+sh(1,2)", "linear(elu1)",
                                "rbf+window(3)", "softmax+padding", "softmax+conv1d(3,axis=token)"})
    for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      Entry e = entry(attention, {2, 2, 24, 24, 8, 8}, Pass::training);
      e.row.dtype = dtype;
      const Check found = check(Problem(e.row));
      EXPECT_TRUE(found.passed) << attention << " " << to_string(dtype) << " " << found.error;
      EXPECT_THAT(found.what, HasSubstr("whole"));
    }
}

TEST_F(Run, LargeShapesAreCheckedByRows) {
  for (const char* attention : {"softmax+causal", "softmax+window(40)", "softmax+bn", "softmax+sh(1,4)"}) {
    const Check found = check(Problem(entry(attention, {1, 2, 1800, 1800, 32, 32}).row));
    EXPECT_TRUE(found.passed) << attention << " " << found.error;
    EXPECT_THAT(found.what, HasSubstr("at full size for")) << attention;
  }
}

TEST_F(Run, TheStridedLayoutHoldsTheSameNumbers) {
  Row row = entry("softmax", {2, 3, 10, 10, 4, 4}, Pass::training).row;
  const Problem dense(row);
  row.layout = Layout::qkv;
  const Problem fused(row);
  dense.run();
  fused.run();
  EXPECT_EQ(fused.call().q.stride, (Shape{10 * 36, 4, 36, 1}));
  EXPECT_EQ(fused.outputs().y.stride, (Shape{10 * 12, 4, 12, 1}));
  const auto a = to_double<4>(dense.gradients().dk), b = to_double<4>(fused.gradients().dk);
  for (Index i = 0; i < a.size(); ++i) EXPECT_NEAR(a.data()[i], b.data()[i], 1e-6);
}

TEST_F(Run, WrongResultsHaveNoTime) {
  Row row = entry("softmax", {1, 1, 8, 8, 4, 4}).row;
  const Problem problem(row);
  problem.run();
  const auto y = to_double<4>(problem.outputs().y);
  std::vector<float> values(y.begin(), y.end());
  EXPECT_LT(output_error(problem, values.data()), 1e-6);
  values[3] += 1;
  EXPECT_GT(output_error(problem, values.data()), 0.1);
  values[3] = NAN;
  EXPECT_FALSE(output_error(problem, values.data()) <= 1);
  Result result;
  result.own.row = row;
  result.own.check.passed = false;
  Bar bar;
  bar.of = "fma";
  bar.at_least = 0.1;
  result.entry.bars = {bar};
  Limits limits;
  limits.fma_f32 = 100;
  conclude(result, {limits});
  EXPECT_EQ(result.bars.front().verdict, Verdict::missed);
  EXPECT_FALSE(result.passed());
}

TEST_F(Run, BarsAgainstOtherRowsAreTimedTogether) {
  Entry e = entry("softmax", {1, 1, 32, 32, 8, 8});
  Bar bar;
  bar.kind = Bar::Kind::slower;
  bar.other = e.row;
  bar.other.dims.N = bar.other.dims.M = 16;
  bar.at_most = 1e9;
  e.bars = {bar};
  Bar peer;
  peer.kind = Bar::Kind::peer;
  peer.of = "torch";
  peer.at_least = 1e9;
  e.bars.push_back(peer);
  Result result = run_entry(e, briefly());
  Limits limits;
  limits.fma_f32 = 100;
  conclude(result, {limits});
  ASSERT_TRUE(result.own.timing.has_value());
  EXPECT_EQ(result.own.timing->rounds, 2);
  ASSERT_EQ(result.others.size(), 1u);
  EXPECT_EQ(result.bars[0].verdict, Verdict::reached);
  EXPECT_EQ(result.bars[1].verdict, Verdict::not_measured);  // an absent peer is no miss
  EXPECT_TRUE(result.passed());
  EXPECT_GT(result.gflops, 0);
  EXPECT_EQ(result.limit, "FMA peak");
}

TEST_F(Run, ReportsAsJsonAndAsAPage) {
  Report report;
  report.suite = "<test>";
  report.limits = measure_limits(best_isa(), {1}, {0.001, false});
  for (Index N : {16, 32}) {
    report.results.push_back(run_entry(entry("softmax", {1, 1, N, N, 8, 8}), briefly()));
    conclude(report.results.back(), report.limits);
  }
  const Json json = to_json(report);
  ASSERT_EQ(json["rows"].size(), 2u);
  const Json& row = json["rows"][0];
  for (const char* key : {"attention", "dims", "dtype", "pass", "layout", "threads", "implementation", "isa", "check",
                          "seconds", "memory", "gflops", "share", "limit", "peers", "bars", "passed"})
    EXPECT_TRUE(row.contains(key)) << key;
  EXPECT_TRUE(json["passed"]);
  const std::string page = to_html(report);
  EXPECT_THAT(page, HasSubstr("&lt;test&gt;"));
  EXPECT_THAT(page, HasSubstr("Roofline"));
  EXPECT_THAT(page, HasSubstr("Time against the number of tokens"));
  EXPECT_THAT(page, Not(HasSubstr("http")));  // nothing is fetched
  EXPECT_THAT(page, Not(HasSubstr("nan")));
}

TEST(PlotTest, SinglePointsAreNoLine) {
  Plot plot;
  plot.series("a").points = {{1, 2, ""}};
  plot.series("b").points = {{1, 2, ""}, {2, 3, ""}};
  plot.keep_lines();
  EXPECT_THAT(plot.svg(), HasSubstr(">b<"));
  EXPECT_THAT(plot.svg(), Not(HasSubstr(">a<")));
}

TEST(PeerTaskTest, KnowsWhatPeersHave) {
  const auto kind = [](const char* attention) { return peer_task(entry(attention, {1, 2, 8, 8, 4, 4}).row).kind; };
  EXPECT_EQ(kind("softmax"), "softmax");
  EXPECT_EQ(kind("softmax+causal"), "softmax");
  EXPECT_EQ(kind("linear(elu1)"), "linear");
  EXPECT_EQ(kind("rbf"), "");
  EXPECT_EQ(kind("softmax+sh(1,2)"), "");
  EXPECT_EQ(kind("softmax+bn+causal"), "");  // statistics of a subset
  EXPECT_EQ(peer_task(entry("softmax+window(5)", {1, 2, 8, 8, 4, 4}).row).window, 5);
  EXPECT_EQ(peer_task(entry("softmax+bn(beta=0.5)", {1, 2, 8, 8, 4, 4}).row).beta, 0.5);
}

TEST(ChildTest, AnswersLineByLine) {
  Child child({"sh", "-c", "while read line; do echo '{\"a\":1}'; done"}, {});
  EXPECT_EQ(child.ask({{"op", "x"}}, 5)["a"], 1);
  EXPECT_EQ(child.ask({{"op", "y"}}, 5)["a"], 1);
}

TEST(ChildTest, FailuresCarryTheReason) {
  const auto reason = [](const char* script, double seconds) {
    Child child({"sh", "-c", script}, {});
    try {
      static_cast<void>(child.ask({{"op", "x"}}, seconds));
      return std::string("answered");
    } catch (const IoError& error) {
      EXPECT_FALSE(child.usable());
      return std::string(error.what());
    }
  };
  EXPECT_THAT(reason("read line; echo broken pipe dream >&2; exit 3", 5), HasSubstr("broken pipe dream"));
  EXPECT_THAT(reason("read line; kill -ILL $$", 5), HasSubstr("Illegal instruction"));
  EXPECT_THAT(reason("read line; echo nonsense; read line", 5), HasSubstr("no JSON object"));
  EXPECT_THAT(reason("sleep 5", 0.05), HasSubstr("did not answer"));
  EXPECT_THROW(Child({"/nowhere/program"}, {}), IoError);
}

}  // namespace
}  // namespace saddle::bench
