// What `saddle bench` prints for people.
#pragma once

#include <string>

#include "report.hpp"

namespace saddle::cli {

// Machine and limits.
std::string limits_text(const bench::Report& report);
// One line per row, what peers did below it; empty without rows.
std::string rows_text(const bench::Report& report, bool verbose);
// One line per training step; empty without any.
std::string models_text(const bench::Report& report);
// One line per causal graph; empty without any.
std::string graphs_text(const bench::Report& report);
// Bar, measured value and verdict of every row that has bars; empty without any.
std::string bars_text(const bench::Report& report);

}  // namespace saddle::cli
