#include "saddle/experiment/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace saddle::experiment {

namespace {

// Okabe and Ito's colours without yellow, which white ground swallows; those for dark ground are lighter.
constexpr std::array<std::string_view, 7> light{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                "#b87a00", "#3a9bd9", "#666666"};
constexpr std::array<std::string_view, 7> dark{"#4aa8e8", "#ff8a3d", "#2cc99b", "#e6a3c8",
                                               "#f0b429", "#8ccbf2", "#a8a8a8"};
constexpr std::size_t shapes = 5;

std::string colours(const std::array<std::string_view, 7>& palette) {
  std::string text;
  for (std::size_t i = 0; i < palette.size(); ++i)
    text += fmt::format(".c{0}{{stroke:{1}}}.f{0}{{fill:{1}}}", i, palette[i]);
  return text;
}

std::string style_sheet() {
  return "text{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;font-size:12px;fill:#24292f}"
         ".small{font-size:11px;fill:#57606a}.heading{font-weight:600}"
         ".ground,.hollow{fill:#ffffff}.axis{stroke:#8c959f}.grid{stroke:#e4e7eb}.reference{stroke:#57606a;"
         "stroke-dasharray:4 3}.curve{fill:none;stroke-width:1.5}.dashed{stroke-dasharray:5 3}.mark{stroke-width:1.6}" +
         colours(light) +
         "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9aa4ae}.ground,.hollow{fill:#0d1117}"
         ".axis{stroke:#6e7681}.grid{stroke:#262c34}.reference{stroke:#9aa4ae}" +
         colours(dark) + "}";
}

// A tenth of a pixel is enough.
std::string px(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string polygon(const std::vector<std::pair<double, double>>& corners) {
  std::string points;
  for (const auto& [x, y] : corners) points += (points.empty() ? "" : " ") + px(x) + "," + px(y);
  return points;
}

// 1, 2 or 5 times a power of ten, the first that is not smaller.
double round_step(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

std::vector<double> round_ticks(double low, double high, int count) {
  const double step = round_step((high - low) / count);
  std::vector<double> ticks;
  const double first = std::floor(low / step + 1e-9), last = std::ceil(high / step - 1e-9);
  for (double k = first; k <= last; ++k) ticks.push_back(k * step);
  return ticks;
}

// 1, 2, 5 and 10, or powers of ten alone when there are many.
std::vector<double> decade_ticks(double low, double high) {
  const bool sparse = high / low > 2000;
  std::vector<double> all;
  for (double e = std::floor(std::log10(low)) - 1; e <= std::ceil(std::log10(high)) + 1; ++e)
    for (const double factor : {1.0, 2.0, 5.0})
      if (!sparse || factor == 1) all.push_back(factor * std::pow(10, e));
  const auto first = std::prev(std::upper_bound(all.begin(), all.end(), low * (1 + 1e-9)));
  const auto last = std::lower_bound(all.begin(), all.end(), high * (1 - 1e-9));
  return {first, last + 1};
}

}  // namespace

Scale Scale::linear(double low, double high, double from, double to, int ticks) {
  if (!(high > low)) {
    const double room = low == 0 ? 1 : std::abs(low) * 0.05;
    low -= room, high += room;
  }
  Scale scale;
  scale.ticks_ = round_ticks(low, high, ticks);
  scale.low_ = scale.ticks_.front(), scale.high_ = scale.ticks_.back();
  scale.from_ = from, scale.to_ = to;
  return scale;
}

Scale Scale::logarithmic(double low, double high, double from, double to) {
  if (!(high > low * 1.02)) low /= 1.05, high *= 1.05;
  Scale scale;
  // Over less than a factor of five the numbers that people expect lie at equal steps.
  scale.ticks_ = high / low < 5 ? round_ticks(low, high, 5) : decade_ticks(low, high);
  if (scale.ticks_.front() <= 0) scale.ticks_.erase(scale.ticks_.begin());
  scale.low_ = std::min(low, scale.ticks_.front()), scale.high_ = scale.ticks_.back();
  scale.from_ = from, scale.to_ = to;
  scale.logarithmic_ = true;
  return scale;
}

Scale Scale::at(const std::vector<double>& values, bool logarithmic, double from, double to, double margin) {
  Scale scale;
  scale.ticks_ = values;
  scale.logarithmic_ = logarithmic;
  scale.low_ = values.front(), scale.high_ = values.back();
  scale.from_ = from + margin, scale.to_ = to - margin;
  if (values.size() == 1) scale.from_ = scale.to_ = (from + to) / 2;
  return scale;
}

double Scale::operator()(double value) const {
  if (!(high_ > low_)) return from_;
  const double share = logarithmic_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
  return from_ + share * (to_ - from_);
}

std::string tick_text(double value) { return std::abs(value) < 1e-12 ? "0" : fmt::format("{:.6g}", value); }

double text_width(std::string_view text, double size) {
  double width = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xc0u) == 0x80u) continue;  // the rest of a character of several bytes
    const bool narrow = std::string_view("iljtfr.,:;'|()[] ").find(c) != std::string_view::npos;
    const bool wide = std::string_view("mwMW%@").find(c) != std::string_view::npos;
    width += narrow ? 0.36 : wide ? 0.92 : c >= 'A' && c <= 'Z' ? 0.7 : 0.6;
  }
  return width * size;
}

std::string fitted(std::string text, double width, double size) {
  if (text_width(text, size) <= width) return text;
  while (!text.empty() && text_width(text + "...", size) > width) {
    while (text.size() > 1 && (static_cast<unsigned char>(text.back()) & 0xc0u) == 0x80u) text.pop_back();
    text.pop_back();
  }
  return text + "...";
}

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;  // XML has no place for control characters
  }
  return out;
}

void Drawing::rule(double x1, double y1, double x2, double y2, Rule kind) {
  const char* name = kind == Rule::axis ? "axis" : kind == Rule::grid ? "grid" : "reference";
  body_ += fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", name, px(x1), px(y1), px(x2),
                       px(y2));
}

void Drawing::curve(const std::vector<std::pair<double, double>>& points, std::size_t style, bool dashed) {
  if (points.size() < 2) return;
  body_ += fmt::format("<polyline class=\"curve{} c{}\" points=\"{}\"/>\n", dashed ? " dashed" : "",
                       style % light.size(), polygon(points));
}

void Drawing::mark(double x, double y, std::size_t style, bool hollow) {
  const std::size_t colour = style % light.size();
  const std::string look =
      fmt::format("class=\"mark c{} {}\"", colour, hollow ? "hollow" : "f" + std::to_string(colour));
  switch (style % shapes) {
    case 0: body_ += fmt::format("<circle {} cx=\"{}\" cy=\"{}\" r=\"3.6\"/>\n", look, px(x), px(y)); return;
    case 1:
      body_ +=
          fmt::format("<rect {} x=\"{}\" y=\"{}\" width=\"6.4\" height=\"6.4\"/>\n", look, px(x - 3.2), px(y - 3.2));
      return;
    case 2:
      body_ += fmt::format("<polygon {} points=\"{}\"/>\n", look,
                           polygon({{x, y - 4.6}, {x + 4.6, y}, {x, y + 4.6}, {x - 4.6, y}}));
      return;
    case 3:
      body_ += fmt::format("<polygon {} points=\"{}\"/>\n", look,
                           polygon({{x, y - 4.4}, {x + 4.2, y + 3.2}, {x - 4.2, y + 3.2}}));
      return;
    default:
      body_ += fmt::format("<polygon {} points=\"{}\"/>\n", look,
                           polygon({{x, y + 4.4}, {x + 4.2, y - 3.2}, {x - 4.2, y - 3.2}}));
  }
}

void Drawing::error_bar(double x1, double y1, double x2, double y2, std::size_t style) {
  const bool flat = y1 == y2;
  const double dx = flat ? 0 : 2.5, dy = flat ? 2.5 : 0;
  const auto stroke = [&](double ax, double ay, double bx, double by) {
    return fmt::format("M{} {}L{} {}", px(ax), px(ay), px(bx), px(by));
  };
  body_ += fmt::format("<path class=\"c{}\" d=\"{}{}{}\"/>\n", style % light.size(), stroke(x1, y1, x2, y2),
                       stroke(x1 - dx, y1 - dy, x1 + dx, y1 + dy), stroke(x2 - dx, y2 - dy, x2 + dx, y2 + dy));
}

void Drawing::text(double x, double y, std::string_view text, Anchor anchor, Text kind) {
  const char* where = anchor == Anchor::start ? "start" : anchor == Anchor::middle ? "middle" : "end";
  const char* look = kind == Text::normal ? "" : kind == Text::small ? " class=\"small\"" : " class=\"heading\"";
  body_ += fmt::format("<text{} x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n", look, px(x), px(y), where,
                       xml_escaped(text));
}

void Drawing::upright_text(double x, double y, std::string_view text) {
  body_ +=
      fmt::format("<text class=\"small\" text-anchor=\"middle\" transform=\"translate({},{}) rotate(-90)\">{}</text>\n",
                  px(x), px(y), xml_escaped(text));
}

double Drawing::legend(double left, double top, const std::vector<LegendEntry>& entries) {
  constexpr double line = 20, sign = 14, gap = 20;
  double x = left, y = top + line / 2;
  for (const LegendEntry& entry : entries) {
    const std::string label = fitted(entry.label, width_ - left - sign - 8);
    const double width = sign + text_width(label);
    if (x > left && x + width > width_ - 8) x = left, y += line;
    mark(x + 5, y, entry.style, entry.hollow);
    text(x + sign, y + 4, label);
    x += width + gap;
  }
  return entries.empty() ? top : y + line / 2 + 6;
}

std::string Drawing::finish(double height, std::string_view title) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\">\n"
      "<title>{2}</title>\n<style>{3}</style>\n<rect class=\"ground\" width=\"{0}\" height=\"{1}\"/>\n{4}</svg>\n",
      px(width_), px(std::ceil(height)), xml_escaped(title), style_sheet(), body_);
}

}  // namespace saddle::experiment
