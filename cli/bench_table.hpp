// What `saddle bench` prints for people.
#pragma once

#include <string>

#include "report.hpp"

namespace saddle::cli {

// Machine and limits.
std::string limits_text(const bench::Report& report);
// One line per row, what peers did below it.
std::string rows_text(const bench::Report& report, bool verbose);
// Bar, measured value and verdict of every row that has bars; empty without any.
std::string bars_text(const bench::Report& report);

}  // namespace saddle::cli
