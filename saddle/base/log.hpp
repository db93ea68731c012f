// Messages for people, on stderr and optionally in a file. Results never go through here.
#pragma once

#include <string>
#include <string_view>

#include "saddle/base/export.hpp"

namespace saddle {

enum class LogLevel { error, warn, info, debug };

// Messages above this level are dropped; info unless set.
SADDLE_API void set_log_level(LogLevel level);
SADDLE_API LogLevel log_level();

// Also appends every message to this file, without colour and with the time; an empty path ends that. Throws IoError.
SADDLE_API void set_log_file(const std::string& path);

// Writes one line. Colour only on a terminal, and not if the environment variable NO_COLOR is set.
SADDLE_API void log(LogLevel level, std::string_view message);
// The same, for the first message with this key in the life of the process.
SADDLE_API void log_once(std::string_view key, LogLevel level, std::string_view message);

}  // namespace saddle
