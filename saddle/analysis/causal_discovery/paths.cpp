#include <algorithm>

#include "saddle/analysis/causal_discovery/paths_internal.hpp"

namespace saddle::analysis::causal_discovery {

std::optional<Index> discriminating_start(const Graph& graph, Index a, Index b, Index c) {
  std::vector<char> visited(static_cast<std::size_t>(graph.size()), 0);
  for (const Index node : {a, b, c}) visited[static_cast<std::size_t>(node)] = 1;
  for (Nodes frontier{a}; !frontier.empty();) {
    std::vector<char> next(visited.size(), 0);
    for (const Index u : frontier)
      for (Index d = 0; d < graph.size(); ++d) {
        if (d == a || d == b || d == c || graph.mark(d, u) != Mark::arrow) continue;
        if (!graph.adjacent(d, c)) return d;
        if (visited[static_cast<std::size_t>(d)] == 0 && graph.parent(d, c) && graph.mark(u, d) == Mark::arrow)
          next[static_cast<std::size_t>(d)] = 1;
      }
    frontier.clear();
    for (Index d = 0; d < graph.size(); ++d) {
      if (next[static_cast<std::size_t>(d)] == 0) continue;
      visited[static_cast<std::size_t>(d)] = 1;
      frontier.push_back(d);
    }
  }
  return std::nullopt;
}

namespace {

class UncoveredPath {
 public:
  UncoveredPath(const Graph& graph, Index y, Index to, const EdgeCondition& allowed)
      : graph_(graph), y_(y), to_(to), allowed_(allowed), taken_(static_cast<std::size_t>(graph.size()), 0) {
    taken_[static_cast<std::size_t>(y)] = taken_[static_cast<std::size_t>(to)] = 1;
  }

  // Continues after the step from x to `from`; true once `path` holds the nodes from there to the end.
  bool extend(Index x, Index from) {
    if (allowed_(from, to_) && !graph_.adjacent(from, y_) && !graph_.adjacent(x, to_)) {
      path = {from, to_};
      return true;
    }
    const Taken here(taken_, x), there(taken_, from);
    for (Index c = 0; c < graph_.size(); ++c) {
      if (taken_[static_cast<std::size_t>(c)] != 0 || !graph_.adjacent(c, from) || !allowed_(from, c) ||
          graph_.adjacent(x, c))
        continue;
      if (!extend(from, c)) continue;
      path.insert(path.begin(), from);
      return true;
    }
    return false;
  }

  std::vector<Index> path;

 private:
  // Keeps a node out of the rest of the path.
  struct Taken {
    Taken(std::vector<char>& nodes, Index node) : mark(nodes[static_cast<std::size_t>(node)]), before(mark) {
      mark = 1;
    }
    ~Taken() { mark = before; }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    char& mark;
    char before;
  };

  const Graph& graph_;
  Index y_, to_;
  const EdgeCondition& allowed_;
  std::vector<char> taken_;
};

}  // namespace

std::optional<std::vector<Index>> uncovered_path(const Graph& graph, Index x, Index y, Index from, Index to,
                                                 const EdgeCondition& allowed) {
  if (from == to) return std::vector<Index>{from};
  UncoveredPath search(graph, y, to, allowed);
  if (!search.extend(x, from)) return std::nullopt;
  return std::move(search.path);
}

}  // namespace saddle::analysis::causal_discovery
