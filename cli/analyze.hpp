// What `saddle analyze` prints and writes.
#pragma once

#include <string>

#include "saddle/analysis/registry.hpp"

namespace saddle::cli {

// One page of HTML that needs nothing else: sentences, curves, maps, tables.
std::string analysis_page(const analysis::Analysis& analysis, const std::string& input, const analysis::Result& result);

// Pieces of such pages: all up to the findings, and a table under its title.
std::string page_begin(const std::string& title, const std::string& input, const std::string& about,
                       const std::vector<std::string>& findings);
std::string table_html(const analysis::Table& table);

// The folder of a run, or weights that say which model they belong to.
bool is_model(const std::string& input);
// A file that is no model, unpacked first if it is gzip.
analysis::Result analyze_plain_file(const analysis::Analysis& analysis, const std::string& file,
                                    analysis::Options& options);

// The result to the terminal or as JSON, the page and other files to where they are wanted.
struct Context;
int print_analysis(const analysis::Analysis& analysis, const std::string& input, const analysis::Result& result,
                   const std::string& html, const Context& context);

}  // namespace saddle::cli
