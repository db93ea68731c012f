// Numbers as they stand in data files.
#pragma once

#include <string_view>

namespace saddle::data {

enum class Found {
  number,
  missing,    // "?", "NaN" in any case
  too_large,  // beyond the range of float, or infinite
  other
};

// Reads the number at the start of text: "1e-5", "+3", ".5", "-2."; `rest` becomes what follows it. A missing value
// is NaN. Blanks are not skipped.
Found read_number(std::string_view text, double& value, std::string_view& rest);

// The whole field, blanks around it allowed. Also "" and "NA" are missing.
Found read_field(std::string_view text, double& value);

std::string_view trimmed(std::string_view text);

}  // namespace saddle::data
