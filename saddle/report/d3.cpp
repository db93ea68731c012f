// The library that draws the plots stands in a package of the system and joins the page when that is written.
#include <fmt/format.h>

#include <cstdlib>

#include "saddle/base/error.hpp"
#include "saddle/report/checked_json_internal.hpp"
#include "saddle/report/report.hpp"

namespace saddle::report {

std::string read_d3() {
  const std::string hint = "install Debian's package node-d3, or let SADDLE_D3 name a d3.min.js";
  std::vector<std::string> places{"/usr/share/nodejs/d3/dist/d3.min.js", "/usr/share/javascript/d3/d3.min.js",
                                  "/usr/lib/nodejs/d3/dist/d3.min.js"};
  if (const char* chosen = std::getenv("SADDLE_D3"); chosen != nullptr && *chosen != '\0') places = {chosen};
  for (const std::string& place : places) {
    if (!std::filesystem::is_regular_file(place)) continue;
    std::string text = read_text(place);
    if (text.find("d3js.org") == std::string::npos) throw IoError(fmt::format("{} is not D3", place), hint);
    return text;
  }
  throw IoError(fmt::format("the report needs D3, and {} is not there", fmt::join(places, " or ")), hint);
}

}  // namespace saddle::report
