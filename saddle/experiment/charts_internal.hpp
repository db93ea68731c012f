// The two kinds of plot that pages have, as values; each becomes one SVG about 760 wide.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "saddle/experiment/svg.hpp"

namespace saddle::experiment {

struct ChartPoint {
  double x = 0, y = 0;
  std::optional<double> error;  // to both sides; of x in a row chart, of y in a panel
};

struct ChartSeries {
  std::string label;
  std::size_t style = 0;
  bool hollow = false;             // marks
  bool connected = false;          // by a line
  std::vector<ChartPoint> points;  // by x
};

// Things as rows, one mark per series and row, x to the right; in points, y is the number of the row.
struct RowChart {
  std::string title, x_title;
  std::vector<std::string> rows;
  std::vector<ChartSeries> series;
};
std::string draw(const RowChart& chart);

enum class XAxis { linear, logarithmic, categories };

struct Panel {
  std::string title;
  std::vector<ChartSeries> series;
  std::optional<double> reference;  // a dashed line at this y
  bool logarithmic_y = false;
};

// Panels of the same axes side by side, each with its own range of y; ticks of x stand at the values that occur.
struct PanelChart {
  std::string title, x_title, y_title;
  XAxis x_axis = XAxis::linear;
  std::vector<std::string> categories;  // names of x = 0, 1, ..
  std::vector<Panel> panels;
  std::vector<LegendEntry> legend;
  std::string notes;  // a line below the legend
};
std::string draw(const PanelChart& chart);

}  // namespace saddle::experiment
