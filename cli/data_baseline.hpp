// What simple methods reach on a data set, for people and for scripts.
#pragma once

#include <string>

#include "saddle/data/find.hpp"
#include "saddle/eval/baseline.hpp"

namespace saddle::cli {

std::string baseline_text(const data::Task& task, const eval::BaselineOptions& options);
// The same as the text of a JSON document.
std::string baseline_json(const data::Task& task, const eval::BaselineOptions& options);

}  // namespace saddle::cli
