// Drawings as SVG that stand on a page by themselves: marks, lines and text in colours that can be told apart by
// everybody, on light and on dark ground; axes with round ticks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace saddle::experiment {

// From values to pixels. The range is widened to whole ticks.
class Scale {
 public:
  // About `ticks` of them at 1, 2 or 5 times a power of ten.
  static Scale linear(double low, double high, double from, double to, int ticks = 5);
  // Of positive values.
  static Scale logarithmic(double low, double high, double from, double to);
  // Ticks at these values alone, with a margin of pixels beside the first and the last.
  static Scale at(const std::vector<double>& values, bool logarithmic, double from, double to, double margin);

  double operator()(double value) const;
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  double low_ = 0, high_ = 1, from_ = 0, to_ = 1;
  bool logarithmic_ = false;
  std::vector<double> ticks_;
};

// "0.25", "4096": a tick without digits that only rounding brought.
std::string tick_text(double value);

// Pixels that a text takes, somewhat more than most fonts need.
double text_width(std::string_view text, double size = 12);
// Cut with three dots to what fits.
std::string fitted(std::string text, double width, double size = 12);
std::string xml_escaped(std::string_view text);

enum class Rule { axis, grid, reference };
enum class Anchor { start, middle, end };
enum class Text { normal, small, heading };

struct LegendEntry {
  std::string label;
  std::size_t style = 0;
  bool hollow = false;
};

// Styles are numbers: each has a colour and a shape; the first 35 differ.
class Drawing {
 public:
  explicit Drawing(double width) : width_(width) {}
  double width() const { return width_; }

  void rule(double x1, double y1, double x2, double y2, Rule kind);
  void curve(const std::vector<std::pair<double, double>>& points, std::size_t style, bool dashed = false);
  void mark(double x, double y, std::size_t style, bool hollow = false);
  // From one end to the other, horizontal or vertical, with caps.
  void error_bar(double x1, double y1, double x2, double y2, std::size_t style);
  void text(double x, double y, std::string_view text, Anchor anchor = Anchor::start, Text kind = Text::normal);
  // From bottom to top, centred at y.
  void upright_text(double x, double y, std::string_view text);
  // In lines of marks and labels below `top`; returns where the next thing can begin.
  double legend(double left, double top, const std::vector<LegendEntry>& entries);

  // The file; `title` is what a reader without eyes gets.
  std::string finish(double height, std::string_view title) const;

 private:
  double width_;
  std::string body_;
};

}  // namespace saddle::experiment
