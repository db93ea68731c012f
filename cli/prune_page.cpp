#include "prune_page.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "saddle/experiment/charts_internal.hpp"

namespace saddle::cli {

namespace {

using experiment::ChartSeries;
using experiment::PanelChart;

std::string escaped(const std::string& text) { return experiment::xml_escaped(text); }

std::string heads_svg(const PrunePage& page) {
  PanelChart chart;
  chart.title = "Scores of heads";
  chart.x_title = "head";
  chart.y_title = page.score;
  chart.legend = {{"stays", 0, false}, {"goes", 1, true}};
  for (std::size_t layer = 0; layer < page.layers.size(); ++layer) {
    const ScoredLayer& own = page.layers[layer];
    if (own.scores.empty()) continue;
    ChartSeries stays{"stays", 0, false, false, {}}, goes{"goes", 1, true, false, {}};
    for (std::size_t head = 0; head < own.scores.size(); ++head)
      (own.stays[head] ? stays : goes).points.push_back({static_cast<double>(head), own.scores[head], {}});
    chart.panels.push_back({fmt::format("layer {}: {}", layer, own.attention), {stays, goes}, {}, false});
  }
  return experiment::draw(chart);
}

std::string curves_svg(const PrunePage& page) {
  PanelChart chart;
  chart.title = "Accuracy against the number of heads that stay";
  chart.x_title = "heads that stay";
  chart.y_title = "accuracy, %";
  for (const CurvePanel& own : page.panels) {
    experiment::Panel panel{own.judged, {}, {}, false};
    for (std::size_t c = 0; c < own.curves.size(); ++c) {
      ChartSeries series{own.curves[c].by, c, false, true, {}};
      for (const SpreadPoint& point : own.curves[c].points)
        series.points.push_back({point.kept, point.mean, point.deviation});
      std::reverse(series.points.begin(), series.points.end());
      if (chart.panels.empty()) chart.legend.push_back({series.label, c, false});
      panel.series.push_back(std::move(series));
    }
    chart.panels.push_back(std::move(panel));
  }
  return experiment::draw(chart);
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

constexpr const char* style = R"(
:root { color-scheme: light dark; --line: #8886; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 900px; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; font-size: 14px; display: block; overflow-x: auto; }
th, td { text-align: left; padding: 3px 10px; border-bottom: 1px solid var(--line); white-space: nowrap; }
svg { max-width: 100%; height: auto; }
.input { color: #888; }
)";

}  // namespace

std::string html_of(const PrunePage& page) {
  std::string html =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"><title>Pruning of heads</title><style>" +
      std::string(style) + "</style></head><body>\n<h1>Pruning of heads</h1>\n<p class=\"input\">" +
      escaped(page.input) + "</p>\n<p>" + escaped(page.about) + "</p>\n";
  if (!page.findings.empty()) {
    html += "<h2>Found here</h2>\n<ul>";
    for (const std::string& finding : page.findings) html += "<li>" + escaped(finding) + "</li>";
    html += "</ul>\n";
  }
  if (!page.panels.empty()) html += "<h2>Accuracy against the number of heads</h2>\n" + curves_svg(page) + "\n";
  if (!page.layers.empty()) html += "<h2>Scores of heads</h2>\n" + heads_svg(page) + "\n";
  for (const analysis::Table& table : page.tables) html += table_html(table);
  return html + "</body></html>\n";
}

}  // namespace saddle::cli
