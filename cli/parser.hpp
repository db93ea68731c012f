// From a tree of commands and the words of a command line to an exit code.
#pragma once

#include <string>
#include <vector>

#include "command.hpp"

namespace saddle::cli {

// Parses, runs the command, and turns every error into a message, one line of hint and an exit code.
int run(const Command& root, std::vector<std::string> words);

}  // namespace saddle::cli
