// Help pages: examples first, then what can be said.
#pragma once

#include <string>
#include <vector>

#include "command.hpp"

namespace saddle::cli {

// `path` is how the command is called, as in "saddle svr solve".
std::string help_text(const std::string& path, const Command& command, const std::vector<Option>& common);

}  // namespace saddle::cli
