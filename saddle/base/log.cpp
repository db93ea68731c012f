#include "saddle/base/log.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <set>

#include "saddle/base/error.hpp"

namespace saddle {

namespace {

struct Appearance {
  const char* name;
  const char* colour;
};
constexpr std::array<Appearance, 4> appearances{
    {{"error", "\033[1;31m"}, {"warning", "\033[33m"}, {"info", "\033[32m"}, {"debug", "\033[2m"}}};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

struct State {
  std::atomic<LogLevel> level{LogLevel::info};
  std::mutex mutex;  // guards what follows, and keeps lines whole
  std::unique_ptr<std::FILE, CloseFile> file;
  std::set<std::string, std::less<>> said;
};

// Never destroyed: destructors of other static objects may still log.
State& state() {
  static State& instance = *new State;
  return instance;
}

bool colour_wanted() {
  const char* no_color = std::getenv("NO_COLOR");
  return (no_color == nullptr || *no_color == '\0') && isatty(STDERR_FILENO) != 0;
}

void write(LogLevel level, std::string_view message) {
  const auto [name, colour] = appearances[static_cast<std::size_t>(level)];
  const std::string line = colour_wanted() ? fmt::format("{}saddle {}:\033[0m {}\n", colour, name, message)
                                           : fmt::format("saddle {}: {}\n", name, message);
  std::fputs(line.c_str(), stderr);
  if (std::FILE* file = state().file.get()) {
    std::fputs(fmt::format("{:%FT%TZ} {}: {}\n", fmt::gmtime(std::time(nullptr)), name, message).c_str(), file);
    std::fflush(file);
  }
}

}  // namespace

void set_log_level(LogLevel level) { state().level = level; }
LogLevel log_level() { return state().level; }

void set_log_file(const std::string& path) {
  std::unique_ptr<std::FILE, CloseFile> file;
  if (!path.empty()) {
    file.reset(std::fopen(path.c_str(), "a"));
    if (!file) throw IoError(fmt::format("cannot open log file '{}': {}", path, std::strerror(errno)));
  }
  const std::lock_guard lock(state().mutex);
  state().file = std::move(file);
}

void log(LogLevel level, std::string_view message) {
  if (level > log_level()) return;
  const std::lock_guard lock(state().mutex);
  write(level, message);
}

void log_once(std::string_view key, LogLevel level, std::string_view message) {
  if (level > log_level()) return;
  const std::lock_guard lock(state().mutex);
  if (state().said.emplace(key).second) write(level, message);
}

}  // namespace saddle
