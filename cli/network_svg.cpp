#include "network_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "network_layout.hpp"
#include "saddle/experiment/svg.hpp"

namespace saddle::cli {

namespace {

using analysis::Network;
using Point = std::pair<double, double>;

constexpr double height = 26, padding = 18, margin = 12, most_label = 130;

constexpr const char* style =
    "text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#24292f;text-anchor:middle}"
    ".node{fill:#f6f8fa;stroke:#6e7781}.marked{fill:#ffe8c7;stroke:#b35900;stroke-width:2}"
    ".edge{stroke:#57606a;stroke-width:1.3}.arrow{fill:#57606a}.circle{fill:#ffffff;stroke:#57606a;stroke-width:1.3}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.node{fill:#161b22;stroke:#8b949e}"
    ".marked{fill:#4a2f0b;stroke:#f0883e}.edge{stroke:#9aa4ae}.arrow{fill:#9aa4ae}"
    ".circle{fill:#0d1117;stroke:#9aa4ae}}";

// Where the line from the centre of a box towards `to` leaves it.
Point leaves(const Point& centre, const Point& to, const Box& box) {
  const double dx = to.first - centre.first, dy = to.second - centre.second;
  const double sx = dx == 0 ? 1e9 : box.width / 2 / std::abs(dx), sy = dy == 0 ? 1e9 : box.height / 2 / std::abs(dy);
  const double share = std::min({sx, sy, 0.5});
  return {centre.first + share * dx, centre.second + share * dy};
}

// The mark at `tip`, on a line that comes from `from`; `tip` moves to where the line has to end.
std::string end_mark(Network::End end, const Point& from, Point& tip) {
  const double length = std::max(1e-6, std::hypot(tip.first - from.first, tip.second - from.second));
  const double ux = (tip.first - from.first) / length, uy = (tip.second - from.second) / length;
  if (end == Network::End::arrow) {
    const Point base{tip.first - 10 * ux, tip.second - 10 * uy};
    const std::string svg = fmt::format(
        "<polygon class=\"arrow\" points=\"{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}\"/>", tip.first, tip.second,
        base.first - 4.5 * uy, base.second + 4.5 * ux, base.first + 4.5 * uy, base.second - 4.5 * ux);
    tip = base;
    return svg;
  }
  if (end == Network::End::circle) {
    const Point centre{tip.first - 4.5 * ux, tip.second - 4.5 * uy};
    tip = {tip.first - 9 * ux, tip.second - 9 * uy};
    return fmt::format("<circle class=\"circle\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>", centre.first, centre.second);
  }
  return "";
}

const char* mark_text(Network::End end, bool left) {
  if (end == Network::End::arrow) return left ? "<" : ">";
  return end == Network::End::circle ? "o" : "-";
}

}  // namespace

std::string network_svg(const Network& network) {
  if (network.nodes.empty() || network.nodes.size() > most_drawn) return "";
  std::vector<std::string> labels;
  std::vector<Box> boxes;
  for (const std::string& name : network.nodes) {
    labels.push_back(experiment::fitted(name, most_label));
    boxes.push_back({std::max(34.0, experiment::text_width(labels.back()) + padding), height});
  }
  std::vector<std::pair<Index, Index>> edges;
  for (const Network::Edge& edge : network.edges) edges.emplace_back(edge.a, edge.b);
  const Layout layout = lay_out(boxes, edges, 840);
  const double width = layout.width + 2 * margin, tall = layout.height + 2 * margin;
  const auto centre = [&](Index v) {
    const auto& [x, y] = layout.centres[static_cast<std::size_t>(v)];
    return Point{x + margin, y + margin};
  };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "role=\"img\"><title>{2}</title><style>{3}</style>\n",
      width, tall, experiment::xml_escaped(network.title), style);
  std::string marks;  // on top of the boxes: at a flat angle a circle reaches over the rim
  for (const Network::Edge& edge : network.edges) {
    const Point a = centre(edge.a), b = centre(edge.b);
    Point from = leaves(a, b, boxes[static_cast<std::size_t>(edge.a)]),
          to = leaves(b, a, boxes[static_cast<std::size_t>(edge.b)]);
    const Point start = from;
    marks += end_mark(edge.at_a, to, from) + end_mark(edge.at_b, start, to);
    svg += fmt::format(
        "<g><title>{} {}-{} {}</title><line class=\"edge\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" "
        "y2=\"{:.1f}\"/></g>\n",
        experiment::xml_escaped(network.nodes[static_cast<std::size_t>(edge.a)]),
        experiment::xml_escaped(mark_text(edge.at_a, true)), experiment::xml_escaped(mark_text(edge.at_b, false)),
        experiment::xml_escaped(network.nodes[static_cast<std::size_t>(edge.b)]), from.first, from.second, to.first,
        to.second);
  }
  for (std::size_t v = 0; v < boxes.size(); ++v) {
    const auto [x, y] = centre(static_cast<Index>(v));
    const bool marked =
        std::find(network.marked.begin(), network.marked.end(), static_cast<Index>(v)) != network.marked.end();
    svg += fmt::format(
        "<g><title>{}</title><rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"8\"/>"
        "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text></g>\n",
        experiment::xml_escaped(network.nodes[v]), marked ? "marked" : "node", x - boxes[v].width / 2,
        y - boxes[v].height / 2, boxes[v].width, boxes[v].height, x, y + 4, experiment::xml_escaped(labels[v]));
  }
  return svg + marks + "</svg>";
}

}  // namespace saddle::cli
