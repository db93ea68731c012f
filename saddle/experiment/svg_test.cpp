// Drawings: well-formed whatever the labels hold, ticks that people would choose, labels inside the picture.
#include "saddle/experiment/svg_test.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <regex>
#include <set>

#include "saddle/base/text.hpp"
#include "saddle/experiment/charts_internal.hpp"

namespace saddle::experiment {

std::string xml_fault(const std::string& text) {
  static const std::regex entity("&(amp|lt|gt|quot|apos|#[0-9]+);"), name("[A-Za-z][A-Za-z0-9:-]*"),
      attribute("\\s+([A-Za-z][A-Za-z0-9:-]*)=\"([^\"<]*)\"");
  const auto text_fault = [&](const std::string& part) {
    const std::string rest = std::regex_replace(part, entity, "");
    for (const char c : rest)
      if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') return std::string("control character");
    return rest.find('&') == std::string::npos ? std::string() : "bare & in " + part;
  };
  std::vector<std::string> open;
  std::size_t roots = 0, at = 0;
  while (at < text.size()) {
    const std::size_t tag = text.find('<', at);
    const std::string between = text.substr(at, tag - at);
    if (const std::string fault = text_fault(between); !fault.empty()) return fault;
    if (open.empty() && between.find_first_not_of(" \n") != std::string::npos) return "text outside the root";
    if (tag == std::string::npos) break;
    const std::size_t end = text.find('>', tag);
    if (end == std::string::npos) return "a tag has no end";
    std::string inside = text.substr(tag + 1, end - tag - 1);
    at = end + 1;
    if (inside.starts_with('/')) {
      if (open.empty() || open.back() != inside.substr(1)) return "unexpected </" + inside.substr(1) + ">";
      open.pop_back();
      continue;
    }
    const bool closed = inside.ends_with('/');
    if (closed) inside.pop_back();
    std::smatch found;
    if (!std::regex_search(inside, found, name, std::regex_constants::match_continuous)) return "no name in <" + inside;
    if (open.empty() && ++roots > 1) return "two roots";
    if (!closed) open.push_back(found.str());
    std::string rest = found.suffix();
    std::set<std::string> names;
    while (std::regex_search(rest, found, attribute, std::regex_constants::match_continuous)) {
      if (!names.insert(found[1]).second) return "two of " + found[1].str();
      if (const std::string fault = text_fault(found[2]); !fault.empty()) return fault;
      rest = found.suffix().str();
    }
    if (rest.find_first_not_of(' ') != std::string::npos) return "not an attribute: " + rest;
  }
  if (!open.empty()) return "<" + open.back() + "> is not closed";
  return roots == 1 ? "" : "no root";
}

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(XmlFault, SeesWhatIsWrong) {
  EXPECT_EQ(xml_fault("<a b=\"1\"><c/>x &amp; y</a>\n"), "");
  for (const char* wrong : {"<a><b></a></b>", "<a>", "<a/><b/>", "<a b=1/>", "<a b=\"1\" b=\"2\"/>", "<a>x & y</a>",
                            "<a b=\"x & y\"/>", "text", "", "<a>\x01</a>", "<a/>text"})
    EXPECT_NE(xml_fault(wrong), "") << wrong;
}

TEST(Scale, HasRoundTicksAroundTheValues) {
  const Scale scale = Scale::linear(-1.3, 2.4, 0, 100);
  EXPECT_THAT(scale.ticks(), ElementsAre(-2, -1, 0, 1, 2, 3));
  EXPECT_DOUBLE_EQ(scale(-2), 0);
  EXPECT_DOUBLE_EQ(scale(3), 100);
  EXPECT_DOUBLE_EQ(scale(0.5), 50);
  EXPECT_DOUBLE_EQ(Scale::linear(0, 10, 200, 100)(10), 100);  // upwards on the page
}

TEST(Scale, OfOneValueStillHasRoom) {
  for (const double value : {0.0, 50.0, -3.0}) {
    const Scale scale = Scale::linear(value, value, 0, 100);
    EXPECT_GT(scale(value), 0);
    EXPECT_LT(scale(value), 100);
    EXPECT_GE(scale.ticks().size(), 2u);
  }
  const Scale one = Scale::logarithmic(1, 1, 0, 100);
  EXPECT_GT(one(1), 0);
  EXPECT_LT(one(1), 100);
  EXPECT_DOUBLE_EQ(Scale::at({7}, true, 0, 100, 10)(7), 50);
}

TEST(Scale, OfLogarithmsHasEqualStepsForEqualRatios) {
  const Scale scale = Scale::logarithmic(0.11, 9, 0, 100);
  EXPECT_DOUBLE_EQ(scale.ticks().front(), 0.1);
  EXPECT_DOUBLE_EQ(scale.ticks().back(), 10);
  EXPECT_NEAR(scale(1), 50, 1e-9);
  EXPECT_NEAR(scale(4) - scale(2), scale(2) - scale(1), 1e-9);
  // Within a small factor, at the numbers that people expect.
  EXPECT_THAT(Scale::logarithmic(0.72, 1.08, 0, 100).ticks(), testing::Contains(testing::DoubleNear(0.8, 1e-9)));
}

TEST(Scale, KeepsGivenTicksInsideTheMargin) {
  const Scale scale = Scale::at({256, 512, 1024}, true, 0, 100, 10);
  EXPECT_DOUBLE_EQ(scale(256), 10);
  EXPECT_NEAR(scale(512), 50, 1e-9);
  EXPECT_DOUBLE_EQ(scale(1024), 90);
}

TEST(TickText, ShowsNoRounding) {
  EXPECT_EQ(tick_text(0.1 + 0.2), "0.3");
  EXPECT_EQ(tick_text(-1e-17), "0");
  EXPECT_EQ(tick_text(4096), "4096");
}

TEST(Fitted, CutsWhatIsTooWide) {
  EXPECT_EQ(fitted("short", 100), "short");
  const std::string cut = fitted("listops(min=20,max=100,train=2000,test=500,seed=1)", 100);
  EXPECT_THAT(cut, testing::EndsWith("..."));
  EXPECT_LE(text_width(cut), 100);
}

TEST(Drawing, EscapesWhatItWrites) {
  Drawing drawing(200);
  drawing.text(1, 2, "</text><script>alert(1)</script> & \"x\" \x01");
  drawing.upright_text(1, 2, "<b>");
  const std::string svg = drawing.finish(100, "a < b");
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_THAT(svg, HasSubstr("<title>a &lt; b</title>"));
}

TEST(Drawing, LoadsNothingAndHasBothGrounds) {
  const std::string svg = Drawing(200).finish(100, "");
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
  for (const char* loader : {"url(", "@import", "href", "<script", "<image"}) EXPECT_THAT(svg, Not(HasSubstr(loader)));
}

TEST(Drawing, StylesDiffer) {
  std::set<std::string> seen;
  for (std::size_t style = 0; style < 35; ++style) {
    Drawing drawing(100);
    drawing.mark(50, 50, style);
    EXPECT_TRUE(seen.insert(drawing.finish(100, "")).second) << style;
  }
}

// Numbers of an attribute in the elements that the pattern begins.
std::vector<double> numbers(const std::string& svg, const std::string& pattern) {
  std::vector<double> values;
  const std::regex expression(pattern);
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), expression); at != std::sregex_iterator(); ++at)
    values.push_back(*parse_number((*at)[1].str()));
  return values;
}

TEST(RowChart, PutsValuesToTheirSideOfZero) {
  RowChart chart{"title", "points", {"A", "B"}, {{"one", 0, false, false, {{-2, 0, 0.5}, {3, 1, {}}}}}};
  const std::string svg = draw(chart);
  EXPECT_EQ(xml_fault(svg), "");
  const std::vector<double> x = numbers(svg, "<circle[^>]* cx=\"([0-9.]+)\""),
                            zero = numbers(svg, "class=\"reference\" x1=\"([0-9.]+)\"");
  ASSERT_EQ(x.size(), 3u);  // the first is that of the legend
  ASSERT_EQ(zero.size(), 1u);
  EXPECT_LT(x[1], zero[0]);
  EXPECT_GT(x[2], zero[0]);
  EXPECT_EQ(numbers(svg, "<path class=\"c0\" d=\"M([0-9.]+)").size(), 1u);  // an error bar where there is an error
}

TEST(PanelChart, StaysInsideItsPicture) {
  PanelChart chart;
  chart.title = "t", chart.x_title = "N", chart.y_title = "ratio";
  chart.x_axis = XAxis::logarithmic;
  chart.legend = {{std::string(300, 'm'), 0, false}, {"b", 1, true}};
  for (int i = 0; i < 3; ++i)
    chart.panels.push_back(
        {std::string(200, 'W'), {{"", 0, false, true, {{128, 0.5, 0.6}, {256, 2, {}}, {8192, 30, 1.0}}}}, 1.0, true});
  const std::string svg = draw(chart);
  EXPECT_EQ(xml_fault(svg), "");
  const double height = numbers(svg, "<svg[^>]* height=\"([0-9.]+)\"").at(0);
  for (const double x : numbers(svg, " c?x[12]?=\"(-?[0-9.]+)\""))
    EXPECT_THAT(x, testing::AllOf(testing::Ge(0), testing::Le(760)));
  for (const double y : numbers(svg, " c?y[12]?=\"(-?[0-9.]+)\""))
    EXPECT_THAT(y, testing::AllOf(testing::Ge(0), testing::Le(height)));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(PanelChart, WithoutPointsIsStillAPicture) {
  PanelChart chart;
  chart.panels.push_back({"empty", {}, {}, false});
  chart.panels.push_back({"empty", {}, {}, true});
  EXPECT_EQ(xml_fault(draw(chart)), "");
  EXPECT_THAT(draw(chart), Not(HasSubstr("nan")));
  EXPECT_EQ(xml_fault(draw(RowChart{})), "");
}

}  // namespace
}  // namespace saddle::experiment
