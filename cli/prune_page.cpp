#include "prune_page.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "analyze.hpp"
#include "saddle/experiment/charts_internal.hpp"

namespace saddle::cli {

namespace {

using experiment::ChartSeries;
using experiment::PanelChart;

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

}  // namespace

std::string html_of(const PrunePage& page) {
  std::string html = page_begin("Pruning of heads", page.input, page.about, page.findings);
  if (!page.panels.empty()) html += "<h2>Accuracy against the number of heads</h2>\n" + curves_svg(page) + "\n";
  if (!page.layers.empty()) html += "<h2>Scores of heads</h2>\n" + heads_svg(page) + "\n";
  for (const analysis::Table& table : page.tables) html += table_html(table);
  return html + "</body></html>\n";
}

}  // namespace saddle::cli
