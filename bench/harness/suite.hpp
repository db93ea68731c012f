// Suites: lists of rows in TOML, with the bars that rows must reach. See docs/bench.md for the format.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph.hpp"
#include "model.hpp"

namespace saddle::bench {

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
  std::vector<ModelEntry> models;
  std::vector<GraphEntry> graphs;

  std::size_t size() const { return entries.size() + models.size() + graphs.size(); }
};

// The suites in the program: name and text, in order of name.
const std::map<std::string, std::string>& builtin_suites();
// A built-in suite by name, or a file whose name ends in .toml. `default_threads` fills rows that say nothing.
Suite load_suite(const std::string& name, int default_threads);
// Throws DataError with line, column and, for an unknown key, the one that was probably meant.
Suite parse_suite(std::string_view text, const std::string& name, int default_threads);

// Every peer that can be named.
const std::vector<std::string>& peer_names();

}  // namespace saddle::bench
