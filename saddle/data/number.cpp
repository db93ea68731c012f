#include "saddle/data/number.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

namespace saddle::data {

Found read_number(std::string_view text, double& value, std::string_view& rest) {
  const char *start = text.data(), *end = start + text.size();
  rest = text;
  if (start == end) return Found::other;
  if (*start == '?') {
    value = std::numeric_limits<double>::quiet_NaN();
    rest = text.substr(1);
    return Found::missing;
  }
  if (*start == '+') {  // from_chars knows no plus
    ++start;
    if (start == end || *start == '-') return Found::other;
  }
  const auto [stop, error] = std::from_chars(start, end, value);
  if (error == std::errc::invalid_argument) return Found::other;
  rest = {stop, static_cast<std::size_t>(end - stop)};
  // Too close to zero counts as out of range too, but has a value.
  if (error == std::errc::result_out_of_range) value = std::strtod(std::string(start, stop).c_str(), nullptr);
  if (std::isnan(value)) return stop - start > 4 ? Found::other : Found::missing;  // no "nan(...)"
  return std::fabs(value) > static_cast<double>(std::numeric_limits<float>::max()) ? Found::too_large : Found::number;
}

Found read_field(std::string_view text, double& value) {
  text = trimmed(text);
  if (text.empty() || text == "NA") {
    value = std::numeric_limits<double>::quiet_NaN();
    return Found::missing;
  }
  std::string_view rest;
  const Found found = read_number(text, value, rest);
  return rest.empty() ? found : Found::other;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

}  // namespace saddle::data
