// Suites: lists of rows in TOML, with the bars that rows must reach. See docs/bench.md for the format.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "row.hpp"

namespace saddle::bench {

// One condition on a row: a measured value and what it must be.
struct Bar {
  enum class Kind {
    share,   // of a limit of the machine: `of` is "fma" or "amx"
    peer,    // time of the peer `of` divided by ours
    faster,  // time of `other` divided by ours
    slower,  // our time divided by that of `other`
    memory   // bytes beyond inputs, outputs and gradients
  };
  Kind kind = Kind::share;
  std::string of;
  Row other;
  std::optional<double> at_least, at_most, near;  // exactly one
  double within = 0;                              // with near: relative

  bool reached(double value) const;
};

struct Entry {
  Row row;
  std::string work;                // what the row is about, for people; empty: the row itself
  std::vector<std::string> peers;  // who is asked to compute the same
  std::vector<Bar> bars;
  bool once = false;  // too long to repeat: one run, in a process of its own
};

struct Suite {
  std::string name, summary;
  std::vector<Entry> entries;
};

// The suites in the program: name and text, in order of name.
const std::map<std::string, std::string>& builtin_suites();
// A built-in suite by name, or a file whose name ends in .toml. `default_threads` fills rows that say nothing.
Suite load_suite(const std::string& name, int default_threads);
// Throws DataError with line, column and, for an unknown key, the one that was probably meant.
Suite parse_suite(std::string_view text, const std::string& name, int default_threads);

// Every peer that can be named.
const std::vector<std::string>& peer_names();

// "68 % of FMA peak", "2.0x torch", "5.0x f32" (what the other row has that `row` has not); and a value of that kind.
std::string bar_text(const Bar& bar, const Row& row);
std::string value_text(const Bar& bar, double value);

}  // namespace saddle::bench
