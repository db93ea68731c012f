// The page around the data: styles, D3, scripts.
#include <algorithm>

#include "saddle/base/error.hpp"
#include "saddle/report/page_files_internal.hpp"
#include "saddle/report/page_parts_internal.hpp"

namespace saddle::report {

namespace {

// All files of a kind: core first, main last, the others by name.
std::string joined(std::string_view extension) {
  std::vector<PageFile> files;
  for (const PageFile& file : page_files())
    if (file.name.ends_with(extension)) files.push_back(file);
  const auto place = [](const PageFile& file) {
    return file.name.starts_with("core.") ? 0 : file.name.starts_with("main.") ? 2 : 1;
  };
  std::stable_sort(files.begin(), files.end(),
                   [&](const PageFile& a, const PageFile& b) { return place(a) < place(b); });
  std::string text;
  for (const PageFile& file : files) text += std::string(file.text) + "\n";
  return text;
}

// A script that may stand in a page.
std::string contained(std::string script) {
  for (std::size_t at = script.find("</script"); at != std::string::npos; at = script.find("</script", at))
    script.insert(at + 1, "\\");
  return script;
}

}  // namespace

std::string comparison_page(const std::vector<Run>& runs, const PageOptions& options) {
  if (runs.empty()) throw InvalidArgument("a report needs at least one run");
  const std::string d3 = options.d3.empty() ? read_d3() : options.d3;
  // The policy lets nothing be loaded, from anywhere: the page is whole.
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
         "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">\n"
         "<meta name=\"generator\" content=\"saddle\">\n<link rel=\"icon\" href=\"data:,\">\n<title>" +
         escaped(options.title.empty() ? title_of(runs) : options.title) + "</title>\n<style>\n" + joined(".css") +
         "</style>\n</head>\n<body>\n<div id=\"report\"><noscript><p>This report draws its plots with scripts of its "
         "own. Nothing is loaded from elsewhere: allow scripts to see it.</p></noscript></div>\n"
         "<template id=\"derivations-text\">\n" +
         derivations_html(runs) + "</template>\n<script>" + contained(d3) +
         "</script>\n<script type=\"application/json\" id=\"report-data\">" + page_data(runs, options) +
         "</script>\n<script>\n(function () {\n'use strict';\n" + contained(joined(".js")) +
         "})();\n</script>\n</body>\n</html>\n";
}

}  // namespace saddle::report
