#include "compare_progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "output.hpp"

namespace saddle::cli {

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string duration(double seconds) {
  if (seconds < 60) return fmt::format("{:.0f} s", seconds);
  if (seconds < 3600) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

CompareProgress::CompareProgress(std::size_t cells, bool quiet)
    : cells_(cells), quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1), start_(now()) {}

CompareProgress::~CompareProgress() {
  if (drawn_) print_message("\r\033[K");
}

void CompareProgress::begin(const Cell& cell, bool resumed) {
  if (!terminal_) say(fmt::format("{}: {}", cell.name(), resumed ? "resumed" : "begun"));
}

void CompareProgress::end(const Cell& cell, const CellOutcome& outcome) {
  ++ended_;
  const std::string place = fmt::format("[{}/{}] {}", ended_, cells_, cell.name());
  switch (outcome.state) {
    case CellState::skipped: return say(place + ": finished before");
    case CellState::failed: return say(fmt::format("{}: failed, {}", place, outcome.problem));
    case CellState::stopped: return say(place + ": stopped");
    case CellState::trained:
    case CellState::resumed: ++trained_; return say(fmt::format("{}: {}", place, seconds_text(outcome.seconds)));
  }
}

void CompareProgress::say(const std::string& text) {
  if (quiet_) return;
  print_message((drawn_ ? "\r\033[K" : "") + text + "\n");
  drawn_ = false;
}

void CompareProgress::draw(std::size_t running) {
  if (quiet_ || !terminal_) return;
  constexpr std::size_t width = 30;
  const std::size_t filled = cells_ == 0 ? width : width * ended_ / cells_;
  std::string line = fmt::format("[{}{}] {} of {} cells, {} running", std::string(filled, '#'),
                                 std::string(width - filled, '.'), ended_, cells_, running);
  if (trained_ > 0)
    line += fmt::format(", about {} left", duration((now() - start_) / static_cast<double>(trained_) *
                                                    static_cast<double>(cells_ - ended_)));
  print_message("\r\033[K" + line);
  drawn_ = true;
}

}  // namespace saddle::cli
