// Graphs with a mark at each end of an edge: skeletons, completed partially directed graphs, partial ancestral graphs.
#pragma once

#include <cstdint>
#include <vector>

#include "saddle/base/export.hpp"
#include "saddle/base/view.hpp"

namespace saddle::analysis::causal_discovery {

enum class Mark : std::uint8_t { none, circle, arrow, tail };

using Nodes = std::vector<Index>;  // ascending

// n nodes, 0..n-1. mark(a,b) is the mark AT b of the edge between a and b, so a -> b has mark(a,b) = arrow and
// mark(b,a) = tail. mark(a,b) is none exactly where mark(b,a) is.
class SADDLE_API Graph {
 public:
  Graph() = default;
  explicit Graph(Index n) : marks_({n, n}, Mark::none) {}
  // Every pair joined by an edge with the same mark at both ends.
  static Graph complete(Index n, Mark mark);

  Index size() const { return marks_.shape()[0]; }
  Mark mark(Index a, Index b) const { return marks_(a, b); }
  void set(Index a, Index b, Mark mark) { marks_(a, b) = mark; }
  void remove(Index a, Index b) { marks_(a, b) = marks_(b, a) = Mark::none; }
  void set_all(Mark mark);  // at both ends of every edge

  bool adjacent(Index a, Index b) const { return mark(a, b) != Mark::none; }
  // The edge has exactly these marks, the first at a and the second at b.
  bool has(Index a, Mark at_a, Mark at_b, Index b) const { return mark(b, a) == at_a && mark(a, b) == at_b; }
  bool parent(Index a, Index b) const { return has(a, Mark::tail, Mark::arrow, b); }      // a -> b
  bool undirected(Index a, Index b) const { return has(a, Mark::tail, Mark::tail, b); }   // a - b
  bool circles(Index a, Index b) const { return has(a, Mark::circle, Mark::circle, b); }  // a o-o b
  // The edge could become a -> b: adjacent, no tail at b, no arrow at a.
  bool possible_parent(Index a, Index b) const;
  // a *-> m <-* b
  bool collider(Index a, Index m, Index b) const { return mark(a, m) == Mark::arrow && mark(b, m) == Mark::arrow; }
  // Two edges a - m - b that form a triangle or meet head to head.
  bool possible_collider(Index a, Index m, Index b) const;

  Nodes neighbours(Index a) const;
  Index degree(Index a) const;
  // 1 for every node with a path of possible-parent steps to `to`, which itself is not among them unless on a cycle.
  std::vector<char> possible_ancestors(Index to) const;
  // Each node a parent of the next and the last one of the first; empty: there is no such cycle.
  std::vector<Index> directed_cycle() const;

  bool operator==(const Graph&) const = default;

 private:
  Array<Mark, 2> marks_;
};

// The set that separated each pair; empty for pairs that nothing separated.
class SADDLE_API SeparatingSets {
 public:
  SeparatingSets() = default;
  explicit SeparatingSets(Index n) : sets_({n, n}) {}
  void set(Index a, Index b, Nodes nodes);
  const Nodes& at(Index a, Index b) const { return a < b ? sets_(a, b) : sets_(b, a); }
  bool contains(Index a, Index b, Index node) const;

 private:
  Array<Nodes, 2> sets_;
};

}  // namespace saddle::analysis::causal_discovery
