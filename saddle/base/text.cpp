#include "saddle/base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace saddle {

namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

// Optimal string alignment distance, three rows at a time.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string_view> candidates) {
  const std::string wanted = lower(word);
  std::string_view best;
  std::size_t least = SIZE_MAX;
  for (std::string_view candidate : candidates) {
    const std::string offered = lower(candidate);
    std::size_t d = distance(wanted, offered);
    if (wanted.size() >= 3 && offered.starts_with(wanted)) d = std::min<std::size_t>(d, 1);
    const std::size_t close = std::max<std::size_t>(1, std::max(wanted.size(), offered.size()) / 3);
    // A single letter is one edit away from every other: no hint.
    const bool related = d <= close && d < std::max(wanted.size(), offered.size());
    if (related && d < least) {
      best = candidate;
      least = d;
    }
  }
  return std::string(best);
}

std::string format_number(double value) {
  std::array<char, 32> buffer{};  // the longest is "-2.2250738585072014e-308"
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), result.ptr};
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  // from_chars also reads "nan(...)", which nothing here writes.
  if (result.ec != std::errc{} || result.ptr != end || text.ends_with(')')) return std::nullopt;
  return value;
}

}  // namespace saddle
