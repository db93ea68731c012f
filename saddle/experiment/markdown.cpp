#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "saddle/base/text.hpp"
#include "saddle/experiment/markdown_internal.hpp"

namespace saddle::experiment {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += ' ';
    else if (std::string_view("\\`*_[]|").find(c) != std::string_view::npos)
      out += std::string("\\") + c;
    else
      out += c;
  }
  return out;
}

std::string code(std::string_view text) {
  const bool plain = std::none_of(text.begin(), text.end(),
                                  [](char c) { return c == '`' || c == '|' || static_cast<unsigned char>(c) < 0x20; });
  return plain && !text.empty() ? fmt::format("`{}`", text) : escaped(text);
}

std::string data_name(std::string_view text) {
  return text.find('(') == std::string_view::npos ? escaped(text) : code(text);
}

Table::Table(std::vector<std::string> header, std::string alignment)
    : alignment_(std::move(alignment)), header_(std::move(header)) {}

std::string Table::text() const {
  std::string out = "| " + join(header_, " | ") + " |\n|";
  for (const char c : alignment_) out += c == 'r' ? "---:|" : "---|";
  out += "\n";
  for (const auto& row : rows_) out += "| " + join(row, " | ") + " |\n";
  return out + "\n";
}

std::string Notes::mark(const std::string& note) {
  auto found = std::find(notes_.begin(), notes_.end(), note);
  if (found == notes_.end()) found = notes_.insert(notes_.end(), note);
  return fmt::format("<sup>{}</sup>", found - notes_.begin() + 1);
}

std::string Notes::text() const {
  std::string out;
  for (std::size_t i = 0; i < notes_.size(); ++i)
    out += fmt::format("{}<sup>{}</sup> {}", i == 0 ? "" : "<br>\n", i + 1, notes_[i]);
  return notes_.empty() ? "" : out + "\n\n";
}

std::string folded(const std::string& summary, const std::string& text) {
  return fmt::format("<details><summary>{}</summary>\n\n{}</details>\n\n", summary, text);
}

std::string image(const std::string& file, const std::string& description) {
  return fmt::format("![{}]({})\n\n", escaped(description), file);
}

std::string percent_text(double share) { return fmt::format("{:.1f}", 100 * share); }

std::string percent_text(const eval::Spread& shares) {
  const std::string mean = percent_text(shares.mean);
  return shares.deviation ? fmt::format("{} ± {:.1f} ({})", mean, 100 * *shares.deviation, shares.count)
                          : fmt::format("{} ({})", mean, shares.count);
}

std::string points_text(double points) {
  const std::string text = fmt::format("{:+.1f}", points);
  return text == "-0.0" || text == "+0.0" ? "0.0" : text;
}

std::string interval_text(const eval::Spread& points) {
  const auto interval = eval::mean_interval(points);
  return interval && points.count >= 3 ? points_text(interval->low) + " to " + points_text(interval->high) : "-";
}

std::string p_text(double p) { return p < 0.001 ? "< 0.001" : fmt::format("{:.3f}", p); }
std::string p_equation(double p) { return p < 0.001 ? "p < 0.001" : "p = " + p_text(p); }

std::string counted(std::size_t count, const std::string& one, const std::string& many) {
  return fmt::format("{} {}", count, count == 1 ? one : many.empty() ? one + "s" : many);
}

std::string capitalised(std::string sentence) {
  if (!sentence.empty() && sentence[0] >= 'a' && sentence[0] <= 'z')
    sentence[0] = static_cast<char>(sentence[0] - 'a' + 'A');
  return sentence;
}

std::string listed(const std::vector<std::string>& items) {
  if (items.size() < 2) return items.empty() ? "" : items.front();
  return join(std::vector(items.begin(), items.end() - 1)) + " and " + items.back();
}

}  // namespace saddle::experiment
