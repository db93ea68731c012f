// What `saddle analyze` prints and writes.
#pragma once

#include <string>

#include "saddle/analysis/registry.hpp"

namespace saddle::cli {

// One page of HTML that needs nothing else: sentences, curves, maps, tables.
std::string analysis_page(const analysis::Analysis& analysis, const std::string& input, const analysis::Result& result);

// The result to the terminal or as JSON, the page and other files to where they are wanted.
struct Context;
int print_analysis(const analysis::Analysis& analysis, const std::string& input, const analysis::Result& result,
                   const std::string& html, const Context& context);

}  // namespace saddle::cli
