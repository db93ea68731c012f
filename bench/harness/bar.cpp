#include "bar.hpp"

#include <fmt/format.h>

#include <cmath>

#include "saddle/base/text.hpp"

namespace saddle::bench {

namespace {

// In what another row differs from this one.
std::string difference(const Row& other, const Row& row) {
  std::vector<std::string> words;
  if (other.attention != row.attention) words.push_back(other.attention);
  if (other.dims != row.dims) words.push_back(shape_text(other.dims));
  if (other.dtype != row.dtype) words.emplace_back(saddle::to_string(other.dtype));
  if (other.pass != row.pass) words.push_back(to_string(other.pass));
  if (other.layout != row.layout) words.push_back(to_string(other.layout));
  if (other.threads != row.threads)
    words.push_back(fmt::format("{} thread{}", other.threads, other.threads == 1 ? "" : "s"));
  return words.empty() ? "itself" : join(words, " ");
}

std::string subject(const Bar& bar, const Row& row) {
  switch (bar.kind) {
    case Bar::Kind::share: return bar.of == "amx" ? "AMX ceiling" : "FMA peak";
    case Bar::Kind::peer: return bar.of;
    case Bar::Kind::peer_memory: return "the memory of " + bar.of;
    case Bar::Kind::memory: return "extra memory";
    case Bar::Kind::faster:
    case Bar::Kind::slower: break;
  }
  return difference(bar.other, row);
}

}  // namespace

bool Bar::reached(double value) const {
  if (at_least) return value >= *at_least;
  if (at_most) return value <= *at_most;
  return std::fabs(value - near.value_or(0)) <= within * std::fabs(near.value_or(0));
}

std::string value_text(const Bar& bar, double value) {
  switch (bar.kind) {
    case Bar::Kind::share:
    case Bar::Kind::peer_memory: return fmt::format("{:.1f} %", 100 * value);
    case Bar::Kind::memory: return fmt::format("{:.1f} MB", value * 1e-6);
    case Bar::Kind::peer:
    case Bar::Kind::faster: return fmt::format("{:.2f}x", value);
    case Bar::Kind::slower: break;
  }
  return fmt::format("{:.3f}", value);
}

std::string bar_text(const Bar& bar, const Row& row) {
  const std::string of = subject(bar, row);
  const double target = bar.at_least ? *bar.at_least : bar.at_most ? *bar.at_most : bar.near.value_or(0);
  const std::string side = bar.at_most ? "at most " : "";
  const std::string range = bar.near ? fmt::format(" within {:.0f} %", 100 * bar.within) : "";
  switch (bar.kind) {
    case Bar::Kind::share:
    case Bar::Kind::peer_memory: return fmt::format("{}{:.0f} %{} of {}", side, 100 * target, range, of);
    case Bar::Kind::memory: return fmt::format("{} {}{:.0f} MB{}", of, side, target * 1e-6, range);
    case Bar::Kind::peer:
    case Bar::Kind::faster: return fmt::format("{}{:.1f}x{} {}", side, target, range, of);
    case Bar::Kind::slower: break;
  }
  return fmt::format("time {}{:g}{} of {}", side, target, range, of);
}

}  // namespace saddle::bench
