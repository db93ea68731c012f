// The parts of a value, with every option in force; for pages and JSON.
#pragma once

#include <string>
#include <vector>

#include "saddle/primal/written.hpp"

namespace saddle::cli {

struct PartValue {
  std::string role, name, help;
  std::vector<primal::OptionHelp> options;  // default_value: what holds in this value
};
std::vector<PartValue> parts_of(const primal::Attention& attention);

// "16", or "chosen from the shapes" where nothing is fixed.
std::string default_text(const primal::OptionHelp& option);

}  // namespace saddle::cli
