// Errors become a message, one line of hint and an exit code, here and nowhere else.
#pragma once

#include <functional>
#include <string>

namespace saddle::cli {

// The code of body(), or that of the error it throws. `path` names the command, as in "saddle svr solve".
int guarded(const std::string& path, const std::function<int()>& body);

// "run 'saddle list --help' for examples"
std::string help_hint(const std::string& path);

}  // namespace saddle::cli
