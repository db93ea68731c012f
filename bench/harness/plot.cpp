#include "plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace saddle::bench {

namespace {

constexpr double width = 900, plot_height = 380, left = 70, right = 20, top = 16, bottom = 46, legend_line = 19;
constexpr int colours = 8;

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

// From values to pixels.
struct Scale {
  double low, high, from, to;
  bool logarithmic;

  double operator()(double value) const {
    const auto place = [&](double v) { return logarithmic ? std::log10(v) : v; };
    return from + (place(value) - place(low)) / (place(high) - place(low)) * (to - from);
  }

  std::vector<double> ticks() const {
    std::vector<double> list;
    if (logarithmic) {
      const double decades = std::log10(high / low);
      for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10)
        for (double digit : {1.0, 2.0, 5.0})
          if ((digit == 1 || decades < 3) && power * digit >= low && power * digit <= high)
            list.push_back(power * digit);
    } else {
      double step = std::pow(10, std::floor(std::log10(high - low)));
      if ((high - low) / step < 4) step /= 2;
      for (double value = std::ceil(low / step) * step; value <= high + 1e-9; value += step) list.push_back(value);
    }
    return list;
  }
};

// A few places measured at are their own ticks: powers of two stay powers of two.
std::vector<double> places(const std::vector<PlotSeries>& series) {
  std::vector<double> list;
  for (const PlotSeries& one : series)
    for (const PlotPoint& point : one.points) list.push_back(point.x);
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

std::string seconds_tick(double value) {
  return value >= 1      ? fmt::format("{:g} s", value)
         : value >= 1e-3 ? fmt::format("{:g} ms", value * 1e3)
                         : fmt::format("{:g} us", value * 1e6);
}

std::string tick_text(double value) {
  if (value >= 1e6 || (value < 1e-3 && value > 0)) return fmt::format("{:.0e}", value);
  return fmt::format("{:g}", value);
}

// A shape per eight colours, so that series stay apart without colour too.
std::string mark(double x, double y, std::size_t i, const std::string& title) {
  const std::string fill = fmt::format("fill=\"var(--c{})\"", i % colours);
  const std::string inside = title.empty() ? "" : "<title>" + escaped(title) + "</title>";
  switch (i / colours % 3) {
    case 0: return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4.5\" {}>{}</circle>", x, y, fill, inside);
    case 1:
      return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"8\" height=\"8\" {}>{}</rect>", x - 4, y - 4, fill,
                         inside);
    default: break;
  }
  return fmt::format("<path d=\"M{:.1f} {:.1f}l5 9h-10z\" {}>{}</path>", x, y - 5, fill, inside);
}

}  // namespace

PlotSeries& Plot::series(const std::string& name) {
  for (PlotSeries& one : series_)
    if (one.name == name) return one;
  return series_.emplace_back(PlotSeries{name, {}});
}

void Plot::keep_lines() {
  std::erase_if(series_, [](const PlotSeries& one) {
    return std::all_of(one.points.begin(), one.points.end(),
                       [&](const PlotPoint& point) { return point.x == one.points.front().x; });
  });
}

std::string Plot::svg() const {
  double x0 = 1e300, x1 = 0, y0 = 1e300, y1 = 0;
  for (const auto* list : {&series_, &roofs})
    for (const PlotSeries& one : *list)
      for (const PlotPoint& point : one.points) {
        x0 = std::min(x0, point.x), x1 = std::max(x1, point.x);
        y0 = std::min(y0, point.y), y1 = std::max(y1, point.y);
      }
  const double bottom_line = plot_height - bottom;
  const auto scale = [&](double low, double high, double from, double to) {
    return logarithmic ? Scale{low / 1.3, high * 1.3, from, to, true}
                       : Scale{std::min(0.0, low), high * 1.1, from, to, false};
  };
  const Scale x = scale(x0, x1, left, width - right), y = scale(y0, y1, bottom_line, top);
  const std::size_t legend_lines = (series_.size() + 1) / 2;
  const double height = plot_height + legend_line * static_cast<double>(legend_lines) + 8;

  std::string svg = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\">", width, height);
  const std::vector<double> measured = places(series_);
  for (double value : lines&& measured.size() <= 9 ? measured : x.ticks())
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/><text x=\"{0:.1f}\" y=\"{3}\" "
        "text-anchor=\"middle\">{4}</text>",
        x(value), top, bottom_line, bottom_line + 17, tick_text(value));
  for (double value : y.ticks())
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/><text x=\"{3}\" y=\"{4:.1f}\" "
        "text-anchor=\"end\">{5}</text>",
        left, width - right, y(value), left - 7, y(value) + 4, seconds ? seconds_tick(value) : tick_text(value));
  svg += fmt::format("<text class=\"strong\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", width - right,
                     bottom_line + 36, escaped(x_title));
  svg +=
      fmt::format("<text class=\"strong\" transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
                  (top + bottom_line) / 2, escaped(y_title));
  const auto path = [&](const std::vector<PlotPoint>& points) {
    std::string d;
    for (const PlotPoint& point : points)
      d += fmt::format("{}{:.1f} {:.1f}", d.empty() ? "M" : "L", x(point.x), y(point.y));
    return d;
  };
  for (const PlotSeries& roof : roofs) {
    svg += fmt::format("<path class=\"roof\" d=\"{}\"/>", path(roof.points));
    svg += fmt::format("<text class=\"strong\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", width - right - 4,
                       y(roof.points.back().y) - 6, escaped(roof.name));
  }
  for (std::size_t i = 0; i < series_.size(); ++i) {
    std::vector<PlotPoint> points = series_[i].points;
    std::sort(points.begin(), points.end(), [](const PlotPoint& a, const PlotPoint& b) { return a.x < b.x; });
    if (lines)
      svg += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"var(--c{})\" stroke-width=\"1.8\"/>", path(points),
                         i % colours);
    for (const PlotPoint& point : points) svg += mark(x(point.x), y(point.y), i, point.title);
    // The legend in two columns below.
    const double legend_x = left + (i % 2 == 0 ? 0 : (width - left) / 2);
    const std::size_t line = i / 2;
    const double legend_y = plot_height + legend_line * static_cast<double>(line) + 10;
    svg += mark(legend_x, legend_y - 4, i, "");
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", legend_x + 12, legend_y, escaped(series_[i].name));
  }
  return svg + "</svg>";
}

}  // namespace saddle::bench
