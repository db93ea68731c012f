// The pieces of the page that do not come from a file.
#pragma once

#include <string>
#include <vector>

#include "saddle/report/report.hpp"

namespace saddle::report {

// Everything that the scripts show, as JSON that may stand in a script element: it contains no '<'.
std::string page_data(const std::vector<Run>& runs, const PageOptions& options);

// "4 attentions on FashionMNIST"
std::string title_of(const std::vector<Run>& runs);

// A closed <details> for every distinct attention of the runs, with its derivation; one that cannot be derived here
// says why.
std::string derivations_html(const std::vector<Run>& runs);

std::string escaped(std::string_view text);

}  // namespace saddle::report
