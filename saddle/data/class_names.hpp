// Names of classes and of categories. Where all are numbers, equal numbers are one: 1, 1.0 and +1.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "saddle/base/view.hpp"

namespace saddle::data {

// Sorted, each once; of names that are the same number the shortest stays.
std::vector<std::string> class_names(std::vector<std::string> names);

// The number of a name, however it is written, among names of class_names(); -1 if it is none of them.
Index class_number(const std::vector<std::string>& names, std::string_view name);

}  // namespace saddle::data
