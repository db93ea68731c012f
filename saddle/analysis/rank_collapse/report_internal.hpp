// What the page of rank collapse shows, wherever the tokens come from.
#pragma once

#include "saddle/analysis/rank_collapse/rank_collapse.hpp"

namespace saddle::analysis::rank_collapse {

// Of several samples that went the same way, averaged.
struct Course {
  std::string name;                // of a split or a stack
  std::vector<Measures> measures;  // for t = 0..layers
  std::vector<double> pure;        // mu / |X| of pure attention with the same weights, for t = 0..layers; may be empty
  double measured = 1;             // rate per layer of mu / |X|
  double guaranteed = 1;           // rate per layer of the theorem for pure attention; 1: it promises nothing
  Graph graph;                     // of the first sample
};

// The mean of traces of equal depth; a single token is like itself. Throws InvalidArgument when there is none.
Course mean_course(const std::string& name, const std::vector<Trace>& traces,
                   const std::vector<std::vector<double>>& pure = {});

// a [N,M] times x [M,d]
Matrix product(const Matrix& a, const Matrix& x);
// mu / |X| for t = 0..layers of x [N,d] under attention alone: X_t = A_t X_(t-1).
std::vector<double> pure_attention(const Matrix& x, const std::vector<Matrix>& attention);

// "all 5 tokens reach all others (centres), radius 1, strongly connected"
std::string graph_text(const Graph& graph);

Result report(const std::string& name, const std::vector<Course>& courses);

}  // namespace saddle::analysis::rank_collapse
