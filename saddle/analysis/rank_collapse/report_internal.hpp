// What the page of rank collapse shows, wherever the tokens come from.
#pragma once

#include "saddle/analysis/rank_collapse/rank_collapse.hpp"

namespace saddle::analysis::rank_collapse {

// Of several samples that went the same way, averaged.
struct Course {
  std::string name;                // of a split or a stack
  std::vector<Measures> measures;  // for t = 0..layers
  std::vector<Measures> pure;      // of pure attention with the same weights, for t = 0..layers; may be empty
  double measured = 1;             // rate per layer of mu / |X|
  double guaranteed = 1;           // rate per layer of the theorem for every sample
  bool promised = false;           // the theorem speaks of every sample, however near to 1 that rate is
  // Of the oscillation of pure attention, for t = 0..layers: (1 - k eps^r)^floor(t/r) times the first. Empty where the
  // theorem is silent, or speaks of value matrices that are not the identity and leaves a factor open.
  std::vector<double> bound;
  Graph graph;  // of the first sample
};

// The mean of traces of equal depth; a single token is like itself. With `identity` the traces, or `pure` if there is
// any, are those of attention without value matrices. Throws InvalidArgument when there is no trace.
Course mean_course(const std::string& name, const std::vector<Trace>& traces, bool identity,
                   const std::vector<std::vector<Measures>>& pure = {});

// a [N,M] times x [M,d]
Matrix product(const Matrix& a, const Matrix& x);
// For t = 0..layers of x [N,d] under attention alone: X_t = A_t X_(t-1).
std::vector<Measures> pure_attention(const Matrix& x, const std::vector<Matrix>& attention);

// "all 5 tokens reach all others (centres), radius 1, strongly connected"
std::string graph_text(const Graph& graph);

// What the theorem promises per layer, for tables: the rate, how far it is below 1 where digits do not show that, or
// "nothing".
std::string promise_text(double guaranteed, bool promised, int digits);

Result report(const std::string& name, const std::vector<Course>& courses);

}  // namespace saddle::analysis::rank_collapse
