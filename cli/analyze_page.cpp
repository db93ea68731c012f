// The page of an analysis.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analyze.hpp"
#include "network_svg.hpp"
#include "saddle/experiment/svg.hpp"

namespace saddle::cli {

namespace {

using experiment::Anchor;
using experiment::Drawing;
using experiment::Rule;
using experiment::Scale;

std::string escaped(const std::string& text) { return experiment::xml_escaped(text); }

// Layers and heads are counted: few whole numbers have a tick each.
Scale x_scale(const analysis::Chart& chart, double low, double high, double left, double right) {
  std::vector<double> values;
  for (const analysis::Curve& curve : chart.curves)
    for (const auto& [x, y] : curve.points) {
      if (x != std::floor(x) || high - low > 16) return Scale::linear(low, high, left, right);
      values.push_back(x);
    }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (values.size() < 2) return Scale::linear(low, high, left, right);
  return Scale::at(values, false, left, right, 12);
}

std::string chart_svg(const analysis::Chart& chart) {
  constexpr double width = 760, left = 84, right = 740, top = 16, bottom = 300;
  const double infinity = std::numeric_limits<double>::infinity();
  double low_x = infinity, high_x = -infinity, low = infinity, high = -infinity;
  for (const analysis::Curve& curve : chart.curves)
    for (const auto& [x, y] : curve.points) {
      if (!std::isfinite(y) || (chart.logarithmic && y <= 0)) continue;
      low_x = std::min(low_x, x);
      high_x = std::max(high_x, x);
      low = std::min(low, y);
      high = std::max(high, y);
    }
  if (!(low <= high)) return "";
  if (!chart.logarithmic) low = std::min(low, 0.0);
  if (low == high) high = low + 1;
  if (low_x == high_x) high_x = low_x + 1;
  const Scale x = x_scale(chart, low_x, high_x, left, right);
  const Scale y =
      chart.logarithmic ? Scale::logarithmic(low, high, bottom, top) : Scale::linear(low, high, bottom, top);
  Drawing drawing(width);
  for (const double tick : y.ticks()) {
    drawing.rule(left, y(tick), right, y(tick), Rule::grid);
    drawing.text(left - 8, y(tick) + 4, experiment::tick_text(tick), Anchor::end);
  }
  for (const double tick : x.ticks()) drawing.text(x(tick), bottom + 18, experiment::tick_text(tick), Anchor::middle);
  drawing.rule(left, bottom, right, bottom, Rule::axis);
  drawing.text((left + right) / 2, bottom + 36, chart.x, Anchor::middle);
  drawing.upright_text(16, (top + bottom) / 2, chart.y);
  // Marks on long curves would hide them; a point alone needs one.
  const bool few = std::all_of(chart.curves.begin(), chart.curves.end(),
                               [](const analysis::Curve& curve) { return curve.points.size() <= 32; });
  std::vector<experiment::LegendEntry> legend;
  for (std::size_t c = 0; c < chart.curves.size(); ++c) {
    std::vector<std::pair<double, double>> points;
    for (const auto& [px, py] : chart.curves[c].points)
      if (std::isfinite(py) && (!chart.logarithmic || py > 0)) points.emplace_back(x(px), y(py));
    const bool dashed = chart.curves[c].dashed;
    drawing.curve(points, c, dashed);
    if (few || points.size() == 1)
      for (const auto& [px, py] : points) drawing.mark(px, py, c, dashed);
    legend.push_back({chart.curves[c].name, c, dashed});
  }
  const double end = drawing.legend(left, bottom + 52, legend);
  return drawing.finish(end + 8, chart.title);
}

// Blue above 0, red below; `share` from -1 to 1.
std::string shade(double share) {
  const double deep = std::clamp(std::abs(share), 0.0, 1.0);
  return share >= 0 ? fmt::format("rgb({:.0f},{:.0f},{:.0f})", 247 - 239 * deep, 251 - 203 * deep, 255 - 148 * deep)
                    : fmt::format("rgb({:.0f},{:.0f},{:.0f})", 255 - 92 * deep, 247 - 226 * deep, 243 - 225 * deep);
}

// A strip of all shades with the values at its ends.
std::string shades_html(double low, double high, bool both) {
  std::string stops;
  for (int i = 0; i <= 8; ++i) stops += fmt::format("{}{}", i > 0 ? "," : "", shade(both ? i / 4.0 - 1 : i / 8.0));
  return fmt::format(
      "<div class=\"scale\">{:.3g}<span style=\"background:linear-gradient(90deg,{})\"></span>{:.3g}</div>", low, stops,
      high);
}

// Cells that are deeper for larger values, with the value to read when the pointer rests on one.
std::string map_html(const analysis::Map& map) {
  const Index rows = map.values.shape()[0], columns = map.values.shape()[1];
  if (rows == 0 || columns == 0) return "";
  const auto [low, high] = range_of(map);
  const bool both = map.from_zero && low < 0;
  const double cell = std::clamp(320.0 / static_cast<double>(std::max(rows, columns)), 3.0, 40.0);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\"><title>{2}</title>",
      cell * static_cast<double>(columns), cell * static_cast<double>(rows), escaped(map.title));
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < columns; ++j) {
      const double value = map.values(i, j);
      if (!std::isfinite(value)) continue;
      const double share = both ? value / high : high > low ? (value - low) / (high - low) : 0;
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\">"
          "<title>{} {}, {} {}: {:.4g}</title></rect>",
          cell * static_cast<double>(j), cell * static_cast<double>(i), cell, cell, shade(share), escaped(map.rows), i,
          escaped(map.columns), j, value);
    }
  return svg + "</svg>" + shades_html(low, high, both);
}

std::string network_html(const analysis::Network& network) {
  std::string html = "<h2>" + escaped(network.title) + "</h2>\n";
  const std::string svg = network_svg(network);
  if (svg.empty())
    html += fmt::format(
        "<p>The graph has {} nodes, too many for a picture here: {} beside this page draws it, for "
        "example by <code>sfdp -Tsvg {} -o graph.svg</code>. The table below lists the edges.</p>\n",
        network.nodes.size(), escaped(network.file), escaped(network.file));
  else
    html += "<div class=\"wide\">" + svg + "</div>\n";
  return html;
}

constexpr const char* style = R"(
:root { color-scheme: light dark; --line: #8886; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 900px; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; font-size: 14px; display: block; overflow-x: auto; }
th, td { text-align: left; padding: 3px 10px; border-bottom: 1px solid var(--line); white-space: nowrap; }
.wide { overflow-x: auto; }
.maps { display: flex; flex-wrap: wrap; gap: 24px; }
figure { margin: 0; max-width: 100%; } figcaption { font-size: 14px; margin-bottom: 6px; max-width: 320px; }
svg { max-width: 100%; height: auto; }
.scale { font-size: 12px; display: flex; gap: 6px; align-items: center; }
.scale span { display: inline-block; width: 120px; height: 10px; }
.input { color: #888; }
)";

}  // namespace

std::string page_begin(const std::string& title, const std::string& input, const std::string& about,
                       const std::vector<std::string>& findings) {
  std::string html =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"><title>" +
      escaped(title) + "</title><style>" + style + "</style></head><body>\n";
  html +=
      "<h1>" + escaped(title) + "</h1>\n<p class=\"input\">" + escaped(input) + "</p>\n<p>" + escaped(about) + "</p>\n";
  if (findings.empty()) return html;
  html += "<h2>Found here</h2>\n<ul>";
  for (const std::string& finding : findings) html += "<li>" + escaped(finding) + "</li>";
  return html + "</ul>\n";
}

std::string table_html(const analysis::Table& table) {
  std::string html = "<h2>" + escaped(table.title) + "</h2>\n<table><thead><tr>";
  for (const std::string& column : table.columns) html += "<th>" + escaped(column) + "</th>";
  html += "</tr></thead><tbody>";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (const std::string& field : row) html += "<td>" + escaped(field) + "</td>";
    html += "</tr>";
  }
  return html + "</tbody></table>\n";
}

std::string analysis_page(const analysis::Analysis& analysis, const std::string& input,
                          const analysis::Result& result) {
  std::string html = page_begin(analysis.title, input, result.about, result.findings);
  for (const analysis::Network& network : result.networks) html += network_html(network);
  for (const analysis::Chart& chart : result.charts)
    html += "<h2>" + escaped(chart.title) + "</h2>\n" + chart_svg(chart) + "\n";
  if (!result.maps.empty()) html += "<h2>Maps</h2>\n<div class=\"maps\">";
  for (const analysis::Map& map : result.maps)
    html += "<figure><figcaption>" + escaped(map.title) + "</figcaption>" + map_html(map) + "</figure>\n";
  if (!result.maps.empty()) html += "</div>\n";
  for (const analysis::Table& table : result.tables) html += table_html(table);
  return html + "</body></html>\n";
}

}  // namespace saddle::cli
