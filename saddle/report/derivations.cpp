// The derivation of every attention of the runs, for the page.
#include <algorithm>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/registry.hpp"
#include "saddle/primal/derivation.hpp"
#include "saddle/report/page_parts_internal.hpp"

namespace saddle::report {

namespace {

// The steps of the derivation's own page, one level of headings lower.
std::string steps_of(const std::string& written) {
  if (const auto layer = mechanisms::find_layer(written))
    return "<p>" + escaped(mechanisms::find(layer->name()).summary) +
           ". A layer of its own, which is not derived from the regression: <code>saddle show " +
           std::string(layer->name()) + "</code> has its page.</p>\n";
  const primal::Attention attention = mechanisms::parse(written);
  primal::DerivationOptions options;
  options.format = primal::Format::html;
  options.dims = primal::fitting_dims(attention);
  const std::string page = primal::derive(attention, options);
  const std::size_t begin = page.find("<section>"), end = page.rfind("</main>");
  std::string steps = page.substr(begin, end - begin);
  for (std::size_t at = steps.find("h2>"); at != std::string::npos; at = steps.find("h2>", at)) steps[at + 1] = '3';
  return steps;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  return out;
}

std::string derivations_html(const std::vector<Run>& runs) {
  std::vector<std::string> distinct;
  for (const Run& run : runs)
    for (const std::string& written : run.attention)
      if (std::find(distinct.begin(), distinct.end(), written) == distinct.end()) distinct.push_back(written);
  std::string out;
  for (const std::string& written : distinct) {
    std::string steps;
    try {
      steps = steps_of(written);
    } catch (const Error& error) {
      steps = "<p>" + escaped(error.what()) + "</p>";
    }
    std::string breakable;  // a long written form may break after + and a comma
    for (const char c : written) breakable += escaped({&c, 1}) + (c == '+' || c == ',' ? "<wbr>" : "");
    out += "<details class=\"derivation\"><summary><code>" + breakable + "</code></summary>\n" + steps + "</details>\n";
  }
  return out;
}

}  // namespace saddle::report
