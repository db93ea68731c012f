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

// After so many steps a search looks ahead before each further one.
constexpr Index patience = 1000;

class UncoveredPath {
 public:
  UncoveredPath(const Graph& graph, Index y, Index to, const EdgeCondition& allowed)
      : graph_(graph), y_(y), to_(to), allowed_(allowed), taken_(static_cast<std::size_t>(graph.size()), 0) {
    taken_[static_cast<std::size_t>(y)] = taken_[static_cast<std::size_t>(to)] = 1;
  }

  // Continues after the step from x to `from`; true once `path` holds the nodes from there to the end.
  bool extend(Index x, Index from) {
    if (arrives(x, from)) {
      path = {from, to_};
      return true;
    }
    const Taken here(taken_, x), there(taken_, from);
    if (++steps_ > patience && !leads_on(x, from)) return false;
    for (Index c = 0; c < graph_.size(); ++c) {
      if (taken_[static_cast<std::size_t>(c)] != 0 || !continues(x, from, c)) continue;
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

  bool arrives(Index x, Index from) const {
    return allowed_(from, to_) && !graph_.adjacent(from, y_) && !graph_.adjacent(x, to_);
  }
  bool continues(Index x, Index from, Index c) const {
    return graph_.adjacent(c, from) && allowed_(from, c) && !graph_.adjacent(x, c);
  }

  // Whether a walk over nodes that are not taken, and which may meet them twice, gets from the step to the end. If not,
  // no path does. There are exponentially many paths, but at most n^2 steps.
  bool leads_on(Index x, Index from) {
    const Index n = graph_.size();
    seen_.assign(static_cast<std::size_t>(n * n), 0);
    open_.assign(1, {x, from});
    while (!open_.empty()) {
      const auto [u, v] = open_.back();
      open_.pop_back();
      for (Index c = 0; c < n; ++c) {
        if (taken_[static_cast<std::size_t>(c)] != 0 || c == u || !continues(u, v, c)) continue;
        if (arrives(v, c)) return true;
        char& seen = seen_[static_cast<std::size_t>(v * n + c)];
        if (seen == 0) open_.emplace_back(v, c);
        seen = 1;
      }
    }
    return false;
  }

  const Graph& graph_;
  Index y_, to_;
  const EdgeCondition& allowed_;
  std::vector<char> taken_;
  Index steps_ = 0;
  std::vector<char> seen_;  // [n,n] steps
  std::vector<std::pair<Index, Index>> open_;
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
