#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "saddle/experiment/charts_internal.hpp"

namespace saddle::experiment {

namespace {

constexpr double chart_width = 760;

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double value) { low = std::min(low, value), high = std::max(high, value); }
  bool empty() const { return !(low <= high); }
};

struct Frame {
  double left, top, right, bottom;
};

// Side by side within a band: the place of number `i` of `count`, from -1/2 to 1/2.
double lane(std::size_t i, std::size_t count) {
  return (static_cast<double>(i) + 0.5) / static_cast<double>(count) - 0.5;
}

Range range_of(const Panel& panel) {
  Range range;
  if (panel.reference) range.add(*panel.reference);
  for (const ChartSeries& series : panel.series)
    for (const ChartPoint& point : series.points) {
      range.add(point.y);
      // Down to zero does not fit on a logarithmic axis.
      if (!panel.logarithmic_y || point.y > point.error.value_or(0)) range.add(point.y - point.error.value_or(0));
      range.add(point.y + point.error.value_or(0));
    }
  if (range.empty()) range = {panel.logarithmic_y ? 0.5 : 0, 1};
  return range;
}

void draw_panel(Drawing& drawing, const PanelChart& chart, const Panel& panel, const std::vector<double>& xs,
                const Frame& at) {
  const bool categories = chart.x_axis == XAxis::categories;
  const double margin =
      categories ? (at.right - at.left) / (2 * static_cast<double>(std::max<std::size_t>(xs.size(), 1))) : 12;
  const Scale x = Scale::at(xs, chart.x_axis == XAxis::logarithmic, at.left, at.right, margin);
  const Range range = range_of(panel);
  const Scale y = panel.logarithmic_y ? Scale::logarithmic(range.low, range.high, at.bottom, at.top)
                                      : Scale::linear(range.low, range.high, at.bottom, at.top);
  drawing.text(at.left, at.top - 10, fitted(panel.title, at.right - at.left, 14), Anchor::start, Text::heading);
  for (const double tick : y.ticks()) {
    drawing.rule(at.left, y(tick), at.right, y(tick), Rule::grid);
    drawing.text(at.left - 6, y(tick) + 4, tick_text(tick), Anchor::end, Text::small);
  }
  drawing.rule(at.left, at.bottom, at.right, at.bottom, Rule::axis);
  double free_from = -1;  // labels that would touch the one before are left out
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const std::string label = categories ? chart.categories[i] : tick_text(xs[i]);
    const double half = text_width(label, 11) / 2;
    drawing.rule(x(xs[i]), at.bottom, x(xs[i]), at.bottom + 4, Rule::axis);
    if (x(xs[i]) - half < free_from) continue;
    drawing.text(x(xs[i]), at.bottom + 16, label, Anchor::middle, Text::small);
    free_from = x(xs[i]) + half + 6;
  }
  drawing.text((at.left + at.right) / 2, at.bottom + 32, chart.x_title, Anchor::middle, Text::small);
  if (panel.reference) drawing.rule(at.left, y(*panel.reference), at.right, y(*panel.reference), Rule::reference);

  for (std::size_t s = 0; s < panel.series.size(); ++s) {
    const ChartSeries& series = panel.series[s];
    const double shift = categories ? lane(s, panel.series.size()) * margin * 1.6 : 0;
    std::vector<std::pair<double, double>> curve;
    for (const ChartPoint& point : series.points) curve.emplace_back(x(point.x) + shift, y(point.y));
    if (series.connected) drawing.curve(curve, series.style, series.hollow);
    for (std::size_t i = 0; i < curve.size(); ++i) {
      const ChartPoint& point = series.points[i];
      if (point.error && *point.error > 0 && (!panel.logarithmic_y || point.y > *point.error))
        drawing.error_bar(curve[i].first, y(point.y - *point.error), curve[i].first, y(point.y + *point.error),
                          series.style);
      drawing.mark(curve[i].first, curve[i].second, series.style, series.hollow);
    }
  }
}

}  // namespace

std::string draw(const RowChart& chart) {
  Drawing drawing(chart_width);
  std::vector<LegendEntry> legend;
  for (const ChartSeries& series : chart.series) legend.push_back({series.label, series.style, series.hollow});
  double labels = 60;
  for (const std::string& row : chart.rows) labels = std::max(labels, text_width(row) + 12);
  const double lanes = static_cast<double>(std::max<std::size_t>(chart.series.size(), 1));
  const double band = std::max(22.0, 11 * lanes + 6);
  Frame at{std::min(labels, 240.0), 0, chart_width - 24, 0};
  at.top = drawing.legend(16, 8, legend) + 6;
  at.bottom = at.top + band * static_cast<double>(chart.rows.size());

  Range range;
  range.add(0);
  for (const ChartSeries& series : chart.series)
    for (const ChartPoint& point : series.points)
      for (const double side : {-1.0, 1.0}) range.add(point.x + side * point.error.value_or(0));
  const Scale x = Scale::linear(range.low, range.high, at.left + 8, at.right, 8);
  for (const double tick : x.ticks()) {
    drawing.rule(x(tick), at.top, x(tick), at.bottom, Rule::grid);
    drawing.text(x(tick), at.bottom + 16, (tick > 1e-12 ? "+" : "") + tick_text(tick), Anchor::middle, Text::small);
  }
  drawing.text((at.left + at.right) / 2, at.bottom + 34, chart.x_title, Anchor::middle, Text::small);
  for (std::size_t r = 0; r < chart.rows.size(); ++r) {
    const double top = at.top + band * static_cast<double>(r);
    drawing.rule(at.left, top, at.right, top, Rule::grid);
    drawing.text(at.left, top + band / 2 + 4, fitted(chart.rows[r], at.left - 8), Anchor::end);
  }
  drawing.rule(at.left, at.bottom, at.right, at.bottom, Rule::axis);
  drawing.rule(x(0), at.top, x(0), at.bottom, Rule::reference);
  for (std::size_t s = 0; s < chart.series.size(); ++s)
    for (const ChartPoint& point : chart.series[s].points) {
      const double y = at.top + band * (point.y + 0.5) + lane(s, chart.series.size()) * (band - 6);
      if (point.error && *point.error > 0)
        drawing.error_bar(x(point.x - *point.error), y, x(point.x + *point.error), y, chart.series[s].style);
      drawing.mark(x(point.x), y, chart.series[s].style, chart.series[s].hollow);
    }
  return drawing.finish(at.bottom + 46, chart.title);
}

std::string draw(const PanelChart& chart) {
  constexpr double left = 58, right = 14, above = 30, below = 44, height = 170;
  Drawing drawing(chart_width);
  std::set<double> places;
  for (const Panel& panel : chart.panels)
    for (const ChartSeries& series : panel.series)
      for (const ChartPoint& point : series.points) places.insert(point.x);
  std::vector<double> xs(places.begin(), places.end());
  if (chart.x_axis == XAxis::categories) {
    xs.clear();
    for (std::size_t i = 0; i < chart.categories.size(); ++i) xs.push_back(static_cast<double>(i));
  }
  if (xs.empty()) xs = {1};

  // Wide enough for what stands side by side in a category.
  std::size_t lanes = 1;
  for (const Panel& panel : chart.panels) lanes = std::max(lanes, panel.series.size());
  const bool crowded = chart.x_axis == XAxis::categories && lanes * xs.size() > 24;
  const std::size_t columns = std::clamp<std::size_t>(chart.panels.size(), 1, crowded ? 1 : 2);
  const double width = chart_width / static_cast<double>(columns);
  double top = drawing.legend(16, 8, chart.legend);
  if (!chart.notes.empty()) drawing.text(16, top + 10, chart.notes, Anchor::start, Text::small), top += 18;
  double bottom = top;
  for (std::size_t i = 0; i < chart.panels.size(); ++i) {
    const double x = width * static_cast<double>(i % columns);
    const std::size_t row = i / columns;
    const double y = top + (above + height + below) * static_cast<double>(row);
    const Frame at{x + left, y + above, x + width - right, y + above + height};
    drawing.upright_text(x + 14, y + above + height / 2, chart.y_title);
    draw_panel(drawing, chart, chart.panels[i], xs, at);
    bottom = at.bottom + below;
  }
  return drawing.finish(bottom, chart.title);
}

}  // namespace saddle::experiment
