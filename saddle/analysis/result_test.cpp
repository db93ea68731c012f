#include "saddle/analysis/result.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"

namespace saddle::analysis {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const InvalidArgument& error) {
    return std::string(error.what()) + " " + error.hint();
  }
  return "";
}

TEST(Options, AreReadByKind) {
  Options options({{"a", "x,y,"}, {"b", "0.5"}, {"c", "-3"}, {"d", "true"}});
  EXPECT_EQ(options.text("a", ""), "x,y,");
  EXPECT_THAT(options.list("a"), ElementsAre("x", "y", ""));
  EXPECT_EQ(options.number("b", 1), 0.5);
  EXPECT_EQ(options.integer("c", 1), -3);
  EXPECT_TRUE(options.flag("d", false));
  EXPECT_EQ(options.number("e", 7), 7);
  EXPECT_TRUE(options.list("f").empty());
  options.check();
}

TEST(Options, OfAnotherKindAreRefused) {
  Options options({{"count", "2.5"}, {"share", "much"}, {"wide", "yes"}});
  EXPECT_THAT(refusal([&] { options.integer("count", 0); }), HasSubstr("'count' takes a whole number, found '2.5'"));
  EXPECT_THAT(refusal([&] { options.number("share", 0); }), HasSubstr("found 'much'"));
  for (const char* value : {"nan", "inf"}) {
    Options wide(std::map<std::string, std::string>{{"samples", value}});
    EXPECT_THAT(refusal([&] { wide.number("samples", 0); }), HasSubstr("takes a number")) << value;
  }
  EXPECT_THAT(refusal([&] { options.flag("wide", false); }), HasSubstr("true or false"));
}

TEST(Options, NobodyKnowsAreRefused) {
  Options options(std::map<std::string, std::string>{{"temprature", "1"}});
  options.number("temperature", 1);
  EXPECT_THAT(refusal([&] { options.check(); }), HasSubstr("did you mean 'temperature'?"));
}

Result made(double figure) {
  Result result;
  result.about = "about";
  result.findings = {"found"};
  result.tables.push_back({"T", {"layer"}, {{"0"}}});
  result.charts.push_back({"C", "x", "y", {{"test", {{0, figure}}}}, true});
  result.maps.push_back({"M", "a", "b", Array<double, 2>({1, 1}), true});
  result.files = {{"graph.dot", "digraph"}};
  result.json = "{\"n\":1}";
  result.figures = {{"size", figure}};
  return result;
}

TEST(Beside, PutsInputsTogether) {
  const Result both = beside({{"runs/a", made(2)}, {"runs/b", made(3)}});
  ASSERT_EQ(both.tables.size(), 2u);
  EXPECT_THAT(both.tables[0].rows[1], ElementsAre("runs/b", "3", "1.50"));
  EXPECT_THAT(both.tables[1].columns, ElementsAre("input", "layer"));
  EXPECT_THAT(both.tables[1].rows, ElementsAre(ElementsAre("runs/a", "0"), ElementsAre("runs/b", "0")));
  ASSERT_EQ(both.charts.size(), 1u);
  EXPECT_TRUE(both.charts[0].logarithmic);
  EXPECT_EQ(both.charts[0].curves[1].name, "runs/b: test");
  EXPECT_THAT(both.findings, ElementsAre("runs/a: found", "runs/b: found"));
  EXPECT_EQ(both.maps[1].title, "runs/b: M");
  EXPECT_EQ(both.files[1].first, "runs_b_graph.dot");
  EXPECT_EQ(nlohmann::json::parse(both.json)["inputs"][1]["result"]["n"], 1);
  EXPECT_EQ(beside({{"runs/a", made(2)}}).findings, made(2).findings);
  EXPECT_THROW(beside({}), InvalidArgument);
}

// The same shade means the same number in the maps of all inputs.
TEST(Beside, MapsOfOneThingShareTheirShades) {
  Result a = made(1), b = made(2);
  a.maps[0].values(0, 0) = 2;
  b.maps[0].values(0, 0) = 5;
  b.maps.push_back({"other", "a", "b", Array<double, 2>({1, 1}, 7.0), false});
  EXPECT_EQ(range_of(a.maps[0]), std::pair(0.0, 2.0));
  const Result both = beside({{"a", a}, {"b", b}});
  EXPECT_EQ(range_of(both.maps[0]), std::pair(0.0, 5.0));
  EXPECT_EQ(range_of(both.maps[1]), std::pair(0.0, 5.0));
  EXPECT_EQ(range_of(both.maps[2]), std::pair(7.0, 7.0));
  a.maps[0].values(0, 0) = -9;
  EXPECT_EQ(range_of(beside({{"a", a}, {"b", b}}).maps[1]), std::pair(-9.0, 9.0));
}

// A result that lacks a figure leaves its place empty.
TEST(Beside, FiguresMayBeMissing) {
  Result other = made(3);
  other.figures.clear();
  EXPECT_THAT(beside({{"a", made(0)}, {"b", other}}).tables[0].rows,
              ElementsAre(ElementsAre("a", "0", ""), ElementsAre("b", "", "")));
  // Nothing is a share of what is not known.
  EXPECT_THAT(beside({{"a", made(std::nan(""))}, {"b", made(3)}}).tables[0].rows,
              ElementsAre(ElementsAre("a", "", ""), ElementsAre("b", "3", "")));
}

}  // namespace
}  // namespace saddle::analysis
