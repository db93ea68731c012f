// What a data set holds, for people and for scripts.
#pragma once

#include <string>

#include "saddle/data/find.hpp"

namespace saddle::cli {

// Sizes and classes of the splits, notes, and the first training samples. Of the test split only the files and the
// number of samples.
std::string data_text(const data::Task& task, Index samples);
// The same as the text of a JSON document.
std::string data_json(const data::Task& task, Index samples);

}  // namespace saddle::cli
