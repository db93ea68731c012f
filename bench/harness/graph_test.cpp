#include "graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report.hpp"
#include "saddle/analysis/causal_discovery/causal_discovery.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"

namespace saddle::bench {
namespace {

using testing::HasSubstr;

namespace causal = analysis::causal_discovery;

constexpr GraphRow small{8, 2, 400, 0.01, 1};

GraphEntry entry(double at_least) {
  Bar speed;
  speed.kind = Bar::Kind::peer;
  speed.of = "numpy";
  speed.at_least = at_least;
  GraphEntry e;
  e.row = small;
  e.work = "<tiny>";
  e.bars = {speed};
  return e;
}

RunOptions briefly() {
  RunOptions options;
  options.rounds = {0.01, 2, 2};
  return options;
}

// What a right peer says about the row, with so many tests more.
Json right_answer(const GraphRow& row, Index more) {
  const Matrix data = observations(row);
  causal::Options options;
  options.alpha = row.alpha;
  options.stable = true;
  const auto found = causal::pc(causal::FisherZ(causal::correlation(data), static_cast<double>(row.samples)), options);
  Json edges = Json::array();
  for (Index a = 0; a < row.variables; ++a)
    for (Index b = 0; b < row.variables; ++b) {
      if (found.graph.parent(a, b)) edges.push_back({a, b, true});
      if (a < b && found.graph.undirected(a, b)) edges.push_back({a, b, false});
    }
  for (const Index tests : found.tests) more += tests;
  return {{"ok", true}, {"edges", edges}, {"tests", more}};
}

StartGraphPeer answering(const Json& set_up, double seconds) {
  return [=](const GraphRow&) {
    const std::string round = Json{{"ok", true}, {"seconds", seconds}}.dump();
    return std::make_shared<Child>(
        std::vector<std::string>{"sh", "-c",
                                 "while read line; do case \"$line\" in *setup*) echo '" + set_up.dump() +
                                     "';; *) echo '" + round + "';; esac; done"},
        std::map<std::string, std::string>{});
  };
}

TEST(GraphRun, TheSameGraphIsTimedAndJudged) {
  const GraphResult result = run_graph(entry(10), briefly(), answering(right_answer(small, 0), 1000));
  EXPECT_TRUE(result.same);
  EXPECT_FALSE(result.red);
  ASSERT_TRUE(result.ratio());
  EXPECT_GT(*result.ratio(), 1000);  // eight variables take no second
  EXPECT_EQ(result.bars.at(0).verdict, Verdict::reached);
  EXPECT_TRUE(result.passed());
  EXPECT_FALSE(run_graph(entry(1e12), briefly(), answering(right_answer(small, 0), 1)).passed());
}

TEST(GraphRun, AnotherGraphHasNoTimes) {
  Json other = right_answer(small, 0);
  other["edges"].erase(0);
  for (const Json& answer : {other, right_answer(small, 1)}) {
    const GraphResult result = run_graph(entry(10), briefly(), answering(answer, 1000));
    EXPECT_TRUE(result.red);
    EXPECT_FALSE(result.own);
    EXPECT_FALSE(result.ratio());
    EXPECT_EQ(result.bars.at(0).verdict, Verdict::missed);
    EXPECT_FALSE(result.passed());
    Report report;
    report.graphs = {result};
    EXPECT_FALSE(report.passed());
    EXPECT_EQ(to_json(report)["rows"][0]["check"]["passed"], false);
    EXPECT_THAT(to_html(report), HasSubstr("another graph"));
  }
}

TEST(GraphRun, WithoutThePeerNothingIsClaimed) {
  const auto refusing = answering({{"ok", false}, {"reason", "it is not installed"}}, 1);
  const GraphResult result = run_graph(entry(10), briefly(), refusing);
  EXPECT_THAT(result.unmeasured, HasSubstr("not installed"));
  EXPECT_TRUE(result.own);
  EXPECT_EQ(result.bars.at(0).verdict, Verdict::not_measured);
  Report report;
  report.graphs = {result};
  const Json row = to_json(report)["rows"][0];
  EXPECT_TRUE(row["check"]["passed"].is_null());
  EXPECT_THAT(row["peers"][0]["reason"], HasSubstr("not installed"));
  EXPECT_THAT(to_html(report), HasSubstr("&lt;tiny&gt;"));
  GraphEntry alone = entry(10);
  alone.peers = {};
  EXPECT_EQ(run_graph(alone, briefly(), refusing).unmeasured, "numpy was not asked");
}

TEST(GraphRun, AnswersThatMakeNoSenseAreNoTimes) {
  const int before = threads();
  GraphEntry two = entry(10);
  two.row.threads = before + 1;
  const GraphResult result = run_graph(two, briefly(), answering({{"ok", true}}, 1));  // without edges
  EXPECT_THAT(result.unmeasured, HasSubstr("numpy: "));
  EXPECT_TRUE(result.own);
  EXPECT_EQ(result.bars.at(0).verdict, Verdict::not_measured);
  EXPECT_EQ(threads(), before);
  RunOptions failing = briefly();
  failing.progress = [](const std::string&) { throw IoError("nobody listens"); };
  EXPECT_THROW(run_graph(two, failing, answering({{"ok", true}}, 1)), IoError);
  EXPECT_EQ(threads(), before);
}

TEST(GraphRun, TheTableIsTheSameEveryTime) {
  const Matrix first = observations(small), second = observations(small);
  ASSERT_EQ(first.shape(), second.shape());
  EXPECT_TRUE(std::equal(first.begin(), first.end(), second.begin()));
}

TEST(GraphRun, RefusesWhatIsNoGraph) {
  for (const GraphRow& row : {GraphRow{1, 1, 100, 0.01, 1}, GraphRow{10, 10, 100, 0.01, 1}, GraphRow{10, 2, 5, 0.01, 1},
                              GraphRow{10, 2, 100, 0, 1}})
    EXPECT_THROW(validate(row), InvalidArgument);
}

}  // namespace
}  // namespace saddle::bench
