// A comparison for people, spreadsheets, papers and programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "compare_result.hpp"

namespace saddle::cli {

std::string compare_text(const CompareResult& result);

// One line per data set and attention; of every figure mean, standard deviation and count.
std::string compare_csv(const CompareResult& result);

// A table for the package booktabs: attentions below each other, data sets side by side, the best of each bold.
std::string compare_latex(const CompareResult& result);

nlohmann::ordered_json compare_json(const CompareResult& result);

}  // namespace saddle::cli
