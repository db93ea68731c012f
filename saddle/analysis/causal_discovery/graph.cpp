#include "saddle/analysis/causal_discovery/graph.hpp"

#include <algorithm>
#include <functional>

namespace saddle::analysis::causal_discovery {

Graph Graph::complete(Index n, Mark mark) {
  Graph graph(n);
  for (Index a = 0; a < n; ++a)
    for (Index b = 0; b < n; ++b)
      if (a != b) graph.set(a, b, mark);
  return graph;
}

void Graph::set_all(Mark mark) {
  for (Mark& each : marks_)
    if (each != Mark::none) each = mark;
}

bool Graph::possible_parent(Index a, Index b) const {
  return adjacent(a, b) && mark(a, b) != Mark::tail && mark(b, a) != Mark::arrow;
}

bool Graph::possible_collider(Index a, Index m, Index b) const {
  return a != b && adjacent(a, m) && adjacent(m, b) && (adjacent(a, b) || collider(a, m, b));
}

Nodes Graph::neighbours(Index a) const {
  Nodes found;
  found.reserve(static_cast<std::size_t>(degree(a)));
  for (Index b = 0; b < size(); ++b)
    if (adjacent(a, b)) found.push_back(b);
  return found;
}

Index Graph::degree(Index a) const {
  const Mark* marks = marks_.data() + a * size();
  return std::count_if(marks, marks + size(), [](Mark mark) { return mark != Mark::none; });
}

std::vector<char> Graph::possible_ancestors(Index to) const {
  std::vector<char> found(static_cast<std::size_t>(size()), 0);
  Nodes open{to};
  while (!open.empty()) {
    const Index b = open.back();
    open.pop_back();
    for (Index a = 0; a < size(); ++a) {
      char& known = found[static_cast<std::size_t>(a)];
      if (known != 0 || !possible_parent(a, b)) continue;
      known = 1;
      open.push_back(a);
    }
  }
  return found;
}

std::vector<Index> Graph::directed_cycle() const {
  std::vector<Index> path;
  std::vector<char> done(static_cast<std::size_t>(size()), 0);
  const std::function<bool(Index)> closes = [&](Index node) {
    if (const auto first = std::find(path.begin(), path.end(), node); first != path.end()) {
      path.erase(path.begin(), first);
      return true;
    }
    if (done[static_cast<std::size_t>(node)] != 0) return false;
    path.push_back(node);
    for (Index next = 0; next < size(); ++next)
      if (parent(node, next) && closes(next)) return true;
    path.pop_back();
    done[static_cast<std::size_t>(node)] = 1;
    return false;
  };
  for (Index node = 0; node < size(); ++node)
    if (closes(node)) return path;
  return {};
}

void SeparatingSets::set(Index a, Index b, Nodes nodes) {
  std::sort(nodes.begin(), nodes.end());
  (a < b ? sets_(a, b) : sets_(b, a)) = std::move(nodes);
}

bool SeparatingSets::contains(Index a, Index b, Index node) const {
  const Nodes& set = at(a, b);
  return std::binary_search(set.begin(), set.end(), node);
}

}  // namespace saddle::analysis::causal_discovery
