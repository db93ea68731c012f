#include "saddle/io/names.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "saddle/base/text.hpp"

namespace saddle::io {

namespace {

constexpr std::size_t longest = 200, most = 8;

}  // namespace

std::string in_quotes(std::string_view name) {
  using nlohmann::json;
  const std::string text = json(name.substr(0, longest)).dump(-1, ' ', false, json::error_handler_t::replace);
  return name.size() <= longest ? text : text + "...";
}

std::string list_of(const std::vector<std::string>& names, const std::vector<std::string>& candidates) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) {
    text += (i == 0 ? "" : ", ") + in_quotes(names[i]);
    if (names[i].size() > longest) continue;  // the search takes quadratic time
    if (const std::string close = nearest(names[i], candidates); !close.empty())
      text += " (did you mean " + in_quotes(close) + "?)";
  }
  return names.size() <= most ? text : text + " and " + std::to_string(names.size() - most) + " more";
}

}  // namespace saddle::io
