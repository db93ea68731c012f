// The search for a set that makes two variables independent.
#pragma once

#include <optional>

#include "saddle/analysis/causal_discovery/independence.hpp"
#include "saddle/analysis/causal_discovery/progress_internal.hpp"

namespace saddle::analysis::causal_discovery {

struct Search {
  Index x, y;
  Nodes pool;                             // the sets are subsets of it, in lexicographic order
  Index size;                             // of each set
  std::vector<const Nodes*> tested = {};  // subsets of any of these are known and passed over
  Progress* progress = nullptr;           // gets signs of life
};

struct Outcome {
  std::optional<Nodes> separating;  // the first set with p > alpha
  Index tests = 0;                  // up to it
};

SADDLE_API Outcome search(const IndependenceTest& test, double alpha, const Search& wanted);

// The next set of the same size out of 0..n-1 in lexicographic order; false after the last.
bool next_subset(Nodes& set, Index n);

// A sign of life after so many tests: often enough, and too seldom to take time.
inline constexpr Index sign_of_life = 1024;

// Whether so many tests take longer than it takes to wake other threads.
bool worth_threads(const IndependenceTest& test, double tests);

}  // namespace saddle::analysis::causal_discovery
