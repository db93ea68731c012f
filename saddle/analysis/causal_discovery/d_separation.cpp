// d-separation in a known graph: the test that is never wrong, to judge the algorithms by.
#include <algorithm>
#include <array>

#include "saddle/analysis/causal_discovery/independence.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/shape.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

void require_acyclic(const std::vector<Nodes>& parents, const std::vector<Nodes>& children) {
  std::vector<std::size_t> waiting;
  Nodes open;
  for (std::size_t v = 0; v < parents.size(); ++v) {
    waiting.push_back(parents[v].size());
    if (parents[v].empty()) open.push_back(static_cast<Index>(v));
  }
  std::size_t done = 0;
  for (; !open.empty(); ++done) {
    const auto v = static_cast<std::size_t>(open.back());
    open.pop_back();
    for (const Index child : children[v])
      if (--waiting[static_cast<std::size_t>(child)] == 0) open.push_back(child);
  }
  if (done < parents.size())
    throw InvalidArgument("the graph has a directed cycle, d-separation needs a directed acyclic graph");
}

}  // namespace

DSeparation::DSeparation(const Array<std::uint8_t, 2>& dag, Nodes observed, Nodes selection)
    : observed_(std::move(observed)), selection_(std::move(selection)) {
  const auto [m, columns] = dag.shape();
  if (m != columns || m == 0)
    throw InvalidArgument("the graph has shape " + saddle::to_string(Shape{m, columns}) + ", expected a square matrix");
  std::vector<char> used(static_cast<std::size_t>(m), 0);
  for (const Nodes* part : {&observed_, &selection_})
    for (const Index node : *part) {
      if (node < 0 || node >= m)
        throw InvalidArgument("node " + std::to_string(node) + " is not in the graph of " + std::to_string(m) +
                              " nodes");
      if (std::exchange(used[static_cast<std::size_t>(node)], 1) != 0)
        throw InvalidArgument("node " + std::to_string(node) + " is named twice as observed or selection");
    }
  if (observed_.empty()) throw InvalidArgument("no node of the graph is observed");
  parents_.resize(static_cast<std::size_t>(m));
  children_.resize(static_cast<std::size_t>(m));
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < m; ++j) {
      if (dag(i, j) == 0) continue;
      children_[static_cast<std::size_t>(i)].push_back(j);
      parents_[static_cast<std::size_t>(j)].push_back(i);
    }
  require_acyclic(parents_, children_);
}

double DSeparation::p_value(Index x, Index y, std::span<const Index> z) const {
  const std::size_t m = parents_.size();
  std::vector<char> given(m, 0), above(m, 0);  // above: with a descendant that is given, or given itself
  Nodes open = selection_;
  for (const Index variable : z) open.push_back(observed_[static_cast<std::size_t>(variable)]);
  for (const Index node : open) given[static_cast<std::size_t>(node)] = 1;
  while (!open.empty()) {
    const auto node = static_cast<std::size_t>(open.back());
    open.pop_back();
    if (std::exchange(above[node], 1) == 0) open.insert(open.end(), parents_[node].begin(), parents_[node].end());
  }

  // Walks along active paths from x; a node is entered from a child (0) or from a parent (1).
  enum { from_child, from_parent };
  const Index goal = observed_[static_cast<std::size_t>(y)];
  std::vector<std::array<char, 2>> visited(m, {0, 0});
  std::vector<std::pair<Index, int>> steps{{observed_[static_cast<std::size_t>(x)], from_child}};
  while (!steps.empty()) {
    const auto [node, entry] = steps.back();
    steps.pop_back();
    if (node == goal) return 0;
    const auto at = static_cast<std::size_t>(node);
    if (std::exchange(visited[at][static_cast<std::size_t>(entry)], 1) != 0) continue;
    const bool passes = given[at] == 0;
    if (passes)
      for (const Index child : children_[at]) steps.emplace_back(child, from_parent);
    if (entry == from_child ? passes : above[at] != 0)
      for (const Index parent : parents_[at]) steps.emplace_back(parent, from_child);
  }
  return 1;
}

}  // namespace saddle::analysis::causal_discovery
