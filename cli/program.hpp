// This program, as it was started.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace saddle::cli {

// The words of the command line, the name of the program first.
std::vector<std::string> own_words();

// Goes on as another program with the same words; returns only if that fails, errno says why.
void continue_as(const std::filesystem::path& program);

}  // namespace saddle::cli
