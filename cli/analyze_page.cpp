// The page of an analysis.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analyze.hpp"
#include "saddle/experiment/svg.hpp"

namespace saddle::cli {

namespace {

using experiment::Anchor;
using experiment::Drawing;
using experiment::Rule;
using experiment::Scale;

std::string escaped(const std::string& text) { return experiment::xml_escaped(text); }

std::string chart_svg(const analysis::Chart& chart) {
  constexpr double width = 760, left = 70, right = 740, top = 16, bottom = 300;
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
  const Scale x = Scale::linear(low_x, high_x, left, right);
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
  std::vector<experiment::LegendEntry> legend;
  for (std::size_t c = 0; c < chart.curves.size(); ++c) {
    std::vector<std::pair<double, double>> points;
    for (const auto& [px, py] : chart.curves[c].points)
      if (std::isfinite(py) && (!chart.logarithmic || py > 0)) points.emplace_back(x(px), y(py));
    drawing.curve(points, c);
    if (points.size() <= 32)
      for (const auto& [px, py] : points) drawing.mark(px, py, c);
    legend.push_back({chart.curves[c].name, c, false});
  }
  const double end = drawing.legend(left, bottom + 52, legend);
  return drawing.finish(end + 8, chart.title);
}

// Cells of blue, deeper for larger values, with the value to read when the pointer rests on one.
std::string map_svg(const analysis::Map& map) {
  const Index rows = map.values.shape()[0], columns = map.values.shape()[1];
  if (rows == 0 || columns == 0) return "";
  double low = map.from_zero ? 0 : std::numeric_limits<double>::infinity(),
         high = -std::numeric_limits<double>::infinity();
  for (const double value : map.values) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  const double cell = std::clamp(320.0 / static_cast<double>(std::max(rows, columns)), 3.0, 40.0);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\"><title>{2}</title>",
      cell * static_cast<double>(columns), cell * static_cast<double>(rows), escaped(map.title));
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < columns; ++j) {
      const double share = high > low ? (map.values(i, j) - low) / (high - low) : 0;
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"rgb({:.0f},{:.0f},{:.0f})\">"
          "<title>{} {}, {} {}: {:.4g}</title></rect>",
          cell * static_cast<double>(j), cell * static_cast<double>(i), cell, cell, 247 - 239 * share,
          251 - 203 * share, 255 - 148 * share, escaped(map.rows), i, escaped(map.columns), j, map.values(i, j));
    }
  return svg + "</svg>";
}

std::string table_html(const analysis::Table& table) {
  std::string html = "<table><thead><tr>";
  for (const std::string& column : table.columns) html += "<th>" + escaped(column) + "</th>";
  html += "</tr></thead><tbody>";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (const std::string& field : row) html += "<td>" + escaped(field) + "</td>";
    html += "</tr>";
  }
  return html + "</tbody></table>\n";
}

constexpr const char* style = R"(
:root { color-scheme: light dark; --line: #8886; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 900px; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; font-size: 14px; display: block; overflow-x: auto; }
th, td { text-align: left; padding: 3px 10px; border-bottom: 1px solid var(--line); white-space: nowrap; }
.maps { display: flex; flex-wrap: wrap; gap: 24px; }
figure { margin: 0; max-width: 100%; } figcaption { font-size: 14px; margin-bottom: 6px; max-width: 320px; }
svg { max-width: 100%; height: auto; }
.input { color: #888; }
)";

}  // namespace

std::string analysis_page(const analysis::Analysis& analysis, const std::string& input,
                          const analysis::Result& result) {
  std::string html =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"><title>" +
      escaped(analysis.title) + "</title><style>" + style + "</style></head><body>\n";
  html += "<h1>" + escaped(analysis.title) + "</h1>\n<p class=\"input\">" + escaped(input) + "</p>\n<p>" +
          escaped(result.about) + "</p>\n";
  if (!result.findings.empty()) {
    html += "<h2>Found here</h2>\n<ul>";
    for (const std::string& finding : result.findings) html += "<li>" + escaped(finding) + "</li>";
    html += "</ul>\n";
  }
  for (const analysis::Chart& chart : result.charts)
    html += "<h2>" + escaped(chart.title) + "</h2>\n" + chart_svg(chart) + "\n";
  if (!result.maps.empty()) html += "<h2>Maps</h2>\n<div class=\"maps\">";
  for (const analysis::Map& map : result.maps)
    html += "<figure><figcaption>" + escaped(map.title) + "</figcaption>" + map_svg(map) + "</figure>\n";
  if (!result.maps.empty()) html += "</div>\n";
  for (const analysis::Table& table : result.tables)
    html += "<h2>" + escaped(table.title) + "</h2>\n" + table_html(table);
  return html + "</body></html>\n";
}

}  // namespace saddle::cli
