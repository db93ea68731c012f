#include "saddle/run/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

namespace saddle::run {

namespace {

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<long>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

Progress::Progress(Index total, std::string unit, Index done, bool wanted)
    : total_(total), first_(done), unit_(std::move(unit)), shown_(wanted && isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() { clear(); }

void Progress::at(Index done, const std::string& note) {
  using namespace std::chrono_literals;
  const Clock::time_point now = Clock::now();
  if (!shown_ || now - last_ < 100ms) return;
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(done - first_) / seconds : 0;
  const double share = total_ > 0 ? static_cast<double>(done) / static_cast<double>(total_) : 0;
  constexpr int cells = 20;
  const int full = static_cast<int>(share * cells);
  std::string line = fmt::format("[{}{}] {:3.0f} %  {} / {} {}", std::string(full, '='), std::string(cells - full, ' '),
                                 100 * share, done, total_, unit_);
  if (rate > 0)
    line += fmt::format(", {:.3g} a second, {} left", rate, duration_text(static_cast<double>(total_ - done) / rate));
  if (!note.empty()) line += "  " + note;
  if (const std::size_t width = terminal_width(); line.size() >= width) line.resize(width - 1);
  std::fprintf(stderr, "\r\x1b[K%s", line.c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
  last_ = {};
}

}  // namespace saddle::run
