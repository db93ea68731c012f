// A plot as inline SVG: named series of points, with or without lines, on logarithmic or plain axes.
#pragma once

#include <string>
#include <vector>

namespace saddle::bench {

struct PlotPoint {
  double x = 0, y = 0;
  std::string title;  // shown when the pointer rests on it
};

struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;
};

class Plot {
 public:
  std::string x_title, y_title;
  bool seconds = false;  // along y
  bool logarithmic = true;
  bool lines = true;              // join the points of a series
  std::vector<PlotSeries> roofs;  // dashed, named at their right end

  // The series of this name, made when it is new.
  PlotSeries& series(const std::string& name);
  // Drops series that would be a single point in x.
  void keep_lines();
  bool empty() const { return series_.empty(); }
  std::string svg() const;

 private:
  std::vector<PlotSeries> series_;
};

}  // namespace saddle::bench
