#include "saddle/analysis/causal_discovery/pds_tree.hpp"

#include <algorithm>
#include <bit>

namespace saddle::analysis::causal_discovery {

namespace {

// A set as a number, while it fits: the members ascending, the first in front, so many bits each. Numbers of sets of
// one size are in the order of the sets.
struct Packed {
  using Set = std::uint64_t;
  int bits;

  Set with(Set set, Index node) const {
    Set behind = 0;
    int width = 0;
    for (const auto member = static_cast<Set>(node); set != 0 && last(set) > member; width += bits, set >>= bits)
      behind |= last(set) << width;
    return ((set << bits | static_cast<Set>(node)) << width) | behind;
  }
  void members(Set set, Index size, Index* into) const {
    for (Index i = size; i-- > 0; set >>= bits) into[i] = static_cast<Index>(last(set));
  }

 private:
  Set last(Set set) const { return set & ((Set{1} << bits) - 1); }
};

struct Listed {
  using Set = Nodes;

  static Set with(const Set& set, Index node) {
    Set larger = set;
    larger.insert(std::upper_bound(larger.begin(), larger.end(), node), node);
    return larger;
  }
  static void members(const Set& set, Index, Index* into) { std::copy(set.begin(), set.end(), into); }
};

template <class Form>
std::vector<Index> grow_sets(const PdsTree& tree, Index size, const std::vector<char>& allowed, const Form& form) {
  enum class Is : char { closed, open, member, added };
  std::vector<Is> is;
  for (const char each : allowed) is.push_back(each != 0 ? Is::open : Is::closed);
  const auto state = [&](Index node) -> Is& { return is[static_cast<std::size_t>(node)]; };
  std::vector<Index> members(static_cast<std::size_t>(size)), added, open;
  // Without the member that is farthest from the root a closed set is closed still, so each grows from a smaller one.
  std::vector<typename Form::Set> sets(1), larger;
  for (Index grown = 0; grown < size; ++grown) {
    larger.clear();
    for (const auto& set : sets) {
      form.members(set, grown, members.data());
      for (Index i = 0; i < grown; ++i) state(members[static_cast<std::size_t>(i)]) = Is::member;
      added.clear();
      open.assign(1, 0);
      while (!open.empty()) {
        const PdsTree::Vertex& vertex = tree.vertices[static_cast<std::size_t>(open.back())];
        open.pop_back();
        for (Index child = vertex.first; child < vertex.end; ++child) {
          const Index node = tree.vertices[static_cast<std::size_t>(child)].node;
          if (state(node) == Is::member) {
            open.push_back(child);
          } else if (state(node) == Is::open) {
            state(node) = Is::added;
            added.push_back(node);
          }
        }
      }
      for (const Index node : added) {
        larger.push_back(form.with(set, node));
        state(node) = Is::open;
      }
      for (Index i = 0; i < grown; ++i) state(members[static_cast<std::size_t>(i)]) = Is::open;
    }
    std::sort(larger.begin(), larger.end());
    larger.erase(std::unique(larger.begin(), larger.end()), larger.end());
    sets.swap(larger);
  }
  std::vector<Index> rows(sets.size() * static_cast<std::size_t>(size));
  for (std::size_t s = 0; s < sets.size(); ++s) form.members(sets[s], size, rows.data() + s * members.size());
  return rows;
}

}  // namespace

PdsTree pds_tree(const Graph& graph, Index root, Index max_depth) {
  const Index n = graph.size();
  if (max_depth < 0) max_depth = n - 1;
  std::vector<Nodes> left(static_cast<std::size_t>(n));  // ends of edges that are not used yet, once a node is reached
  std::vector<char> reached(left.size(), 0), used(left.size() * left.size(), 0);
  PdsTree tree;
  auto& vertices = tree.vertices;
  vertices.push_back({root});
  tree.distance.assign(left.size(), -1);
  tree.distance[static_cast<std::size_t>(root)] = 0;
  const auto grow = [&](std::size_t parent, Index node) {
    const Index from = vertices[parent].node;
    used[static_cast<std::size_t>(from * n + node)] = used[static_cast<std::size_t>(node * n + from)] = 1;
    vertices.push_back({node, static_cast<Index>(parent), vertices[parent].depth + 1});
    vertices[parent].end = static_cast<Index>(vertices.size());
    Index& distance = tree.distance[static_cast<std::size_t>(node)];
    if (distance < 0) distance = vertices.back().depth;
  };
  if (max_depth > 0) {
    vertices[0].first = vertices[0].end = 1;
    for (const Index node : graph.neighbours(root)) grow(0, node);
  }
  for (std::size_t v = 1; v < vertices.size(); ++v) {
    const Index node = vertices[v].node, before = vertices[static_cast<std::size_t>(vertices[v].parent)].node;
    if (vertices[v].depth >= max_depth) break;  // as deep are all that follow
    vertices[v].first = vertices[v].end = static_cast<Index>(vertices.size());
    Nodes& ends = left[static_cast<std::size_t>(node)];
    char& known = reached[static_cast<std::size_t>(node)];
    if (known == 0) ends = graph.neighbours(node);
    known = 1;
    std::size_t kept = 0;
    for (const Index next : ends) {
      if (used[static_cast<std::size_t>(node * n + next)] != 0) continue;
      if (graph.possible_collider(before, node, next))
        grow(v, next);
      else
        ends[kept++] = next;
    }
    ends.resize(kept);
  }
  return tree;
}

Nodes PdsTree::members() const {
  Nodes nodes;
  for (std::size_t v = 0; v < distance.size(); ++v)
    if (distance[v] > 0) nodes.push_back(static_cast<Index>(v));
  return nodes;
}

std::vector<Index> PdsTree::closed_rows(Index size, const std::vector<char>& allowed) const {
  const auto bits = static_cast<int>(std::bit_width(distance.size()));
  return size * bits < 64 ? grow_sets(*this, size, allowed, Packed{bits}) : grow_sets(*this, size, allowed, Listed{});
}

std::vector<Nodes> PdsTree::closed_sets(Index size, const std::vector<char>& allowed) const {
  if (size == 0) return {{}};
  const std::vector<Index> rows = closed_rows(size, allowed);
  std::vector<Nodes> sets;
  for (auto row = rows.begin(); row != rows.end(); row += size) sets.emplace_back(row, row + size);
  return sets;
}

}  // namespace saddle::analysis::causal_discovery
