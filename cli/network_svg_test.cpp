#include "network_svg.hpp"

#include <gmock/gmock.h>

#include "analyze.hpp"
#include "saddle/analysis/registry.hpp"

namespace saddle::cli {
namespace {

using analysis::Network;
using testing::HasSubstr;
using testing::Not;
using enum Network::End;

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(NetworkSvg, EveryMarkIsDrawn) {
  const Network network{"marks", {"a", "b", "c<d"}, {{0, 1, line, arrow}, {1, 2, circle, arrow}}, {2}, ""};
  const std::string svg = network_svg(network);
  EXPECT_EQ(count(svg, "class=\"edge\""), 2U);
  EXPECT_EQ(count(svg, "<polygon"), 2U);
  EXPECT_EQ(count(svg, "<circle"), 1U);
  EXPECT_EQ(count(svg, "class=\"node\""), 2U);
  EXPECT_EQ(count(svg, "class=\"marked\""), 1U);
  EXPECT_THAT(svg, HasSubstr("<title>a --&gt; b</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>b o-&gt; c&lt;d</title>"));
  EXPECT_THAT(svg, Not(HasSubstr("c<d")));
}

TEST(NetworkSvg, TooManyNodesAreNoPicture) {
  Network network{"large", std::vector<std::string>(most_drawn + 1, "v"), {{0, 1, line, line}}, {}, "graph.dot"};
  EXPECT_EQ(network_svg(network), "");
  EXPECT_EQ(network_svg({"none", {}, {}, {}, ""}), "");
  analysis::Result result;
  result.networks = {network};
  const std::string page = analysis_page(analysis::find("causal_discovery"), "input", result);
  EXPECT_THAT(page, HasSubstr("sfdp -Tsvg graph.dot"));
  network.nodes.resize(most_drawn);
  result.networks = {network};
  EXPECT_THAT(analysis_page(analysis::find("causal_discovery"), "input", result), HasSubstr("<svg"));
}

}  // namespace
}  // namespace saddle::cli
