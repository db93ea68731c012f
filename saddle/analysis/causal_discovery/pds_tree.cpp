#include "saddle/analysis/causal_discovery/pds_tree.hpp"

#include <algorithm>
#include <set>

namespace saddle::analysis::causal_discovery {

PdsTree pds_tree(const Graph& graph, Index root, Index max_depth) {
  if (max_depth < 0) max_depth = graph.size() - 1;
  std::vector<Nodes> left;  // ends of the edges that are not used yet
  for (Index v = 0; v < graph.size(); ++v) left.push_back(graph.neighbours(v));
  PdsTree tree;
  auto& vertices = tree.vertices;
  vertices.push_back({root});
  tree.distance.assign(left.size(), -1);
  tree.distance[static_cast<std::size_t>(root)] = 0;
  const auto grow = [&](std::size_t parent, Index node) {
    std::erase(left[static_cast<std::size_t>(node)], vertices[parent].node);
    vertices[parent].children.push_back(static_cast<Index>(vertices.size()));
    vertices.push_back({node, static_cast<Index>(parent), vertices[parent].depth + 1});
    Index& distance = tree.distance[static_cast<std::size_t>(node)];
    if (distance < 0) distance = vertices.back().depth;
  };
  if (max_depth > 0)
    for (const Index node : graph.neighbours(root)) grow(0, node);
  for (std::size_t v = 1; v < vertices.size(); ++v) {
    const Index node = vertices[v].node, before = vertices[static_cast<std::size_t>(vertices[v].parent)].node;
    if (vertices[v].depth >= max_depth) continue;
    Nodes stay;
    for (const Index next : left[static_cast<std::size_t>(node)])
      if (graph.possible_collider(before, node, next))
        grow(v, next);
      else
        stay.push_back(next);
    left[static_cast<std::size_t>(node)] = std::move(stay);
  }
  return tree;
}

Nodes PdsTree::members() const {
  Nodes nodes;
  for (std::size_t v = 0; v < distance.size(); ++v)
    if (distance[v] > 0) nodes.push_back(static_cast<Index>(v));
  return nodes;
}

std::vector<Nodes> PdsTree::closed_sets(Index size, const std::vector<char>& allowed) const {
  // Without the member that is farthest from the root a closed set is closed still, so each grows from a smaller one.
  std::set<Nodes> sets{Nodes{}};
  for (Index grown = 0; grown < size && !sets.empty(); ++grown) {
    std::set<Nodes> larger;
    for (const Nodes& set : sets) {
      std::vector<Index> open{0};
      while (!open.empty()) {
        const Vertex& vertex = vertices[static_cast<std::size_t>(open.back())];
        open.pop_back();
        for (const Index child : vertex.children) {
          const Index node = vertices[static_cast<std::size_t>(child)].node;
          const auto place = std::lower_bound(set.begin(), set.end(), node);
          if (place != set.end() && *place == node) {
            open.push_back(child);
          } else if (allowed[static_cast<std::size_t>(node)] != 0) {
            Nodes with = set;
            with.insert(with.begin() + (place - set.begin()), node);
            larger.insert(std::move(with));
          }
        }
      }
    }
    sets.swap(larger);
  }
  return {sets.begin(), sets.end()};
}

}  // namespace saddle::analysis::causal_discovery
