// Causal discovery as a row of a suite: the PC algorithm on a random linear model, ours against plain numpy.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bar.hpp"
#include "check.hpp"
#include "child.hpp"
#include "statistics.hpp"

namespace saddle::bench {

struct RunOptions;
struct BarResult;

// A random directed acyclic graph with `neighbours` edges at a variable on average, linear effects of 0.5 to 1 of
// either sign, Gaussian noise of variance 1; Fisher's z, stable.
struct GraphRow {
  Index variables = 100, neighbours = 4, samples = 2000;
  double alpha = 0.01;
  int threads = 1;
};

struct GraphEntry {
  GraphRow row;
  std::string work;
  std::vector<Bar> bars;
  std::vector<std::string> peers = {"numpy"};  // the only one there is
};

// "100 variables, 4 neighbours, 2000 samples"
std::string to_string(const GraphRow& row);
// Throws InvalidArgument when there is no such graph.
void validate(const GraphRow& row);

// The observations [samples, variables].
Matrix observations(const GraphRow& row);

struct GraphResult {
  GraphEntry entry;
  Index tests = 0, edges = 0;
  bool same = false;       // skeleton, orientation and number of tests are those of the peer
  bool red = false;        // they are not
  std::string unmeasured;  // why there is no peer; empty: there is one
  std::optional<Timing> own, numpy;
  std::vector<BarResult> bars;

  std::optional<double> ratio() const;  // time of numpy over ours
  bool passed() const;
};

// Starts the peer; throws IoError when there is none.
using StartGraphPeer = std::function<std::shared_ptr<Child>(const GraphRow&)>;
std::shared_ptr<Child> start_graph_peer(const GraphRow& row);

GraphResult run_graph(const GraphEntry& entry, const RunOptions& options,
                      const StartGraphPeer& start = start_graph_peer);

}  // namespace saddle::bench
