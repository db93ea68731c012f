// Tables of numbers from the command line.
#pragma once

#include "saddle/data/csv.hpp"

namespace saddle::cli {

using data::csv_field;
using data::CsvTable;

// The file, or stdin for "-".
CsvTable read_csv(const std::string& file);

}  // namespace saddle::cli
