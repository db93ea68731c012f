#include "saddle/analysis/causal_discovery/orientation.hpp"

#include "saddle/analysis/causal_discovery/paths_internal.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

using enum Mark;

// Nodes with a property, as it is now: rules change marks while they go through such a list.
template <class Property>
Nodes nodes_with(const Graph& graph, const Property& property) {
  Nodes found;
  for (Index v = 0; v < graph.size(); ++v)
    if (property(v)) found.push_back(v);
  return found;
}

// Nodes v with this mark at b of the edge v - b.
Nodes marked(const Graph& graph, Mark at_b, Index b) {
  return nodes_with(graph, [&](Index v) { return graph.mark(v, b) == at_b; });
}

// a *-> b o-* c, a and c not adjacent: b -> c.
bool rule1(Graph& graph) {
  bool modified = false;
  for (Index b = 0; b < graph.size(); ++b) {
    const Nodes into = marked(graph, arrow, b), open = marked(graph, circle, b);
    for (const Index a : into)
      for (const Index c : open) {
        if (graph.adjacent(a, c)) continue;
        graph.set(c, b, tail);
        graph.set(b, c, arrow);
        modified = true;
      }
  }
  return modified;
}

// a *-> b -> c or a -> b *-> c, and a *-o c: a *-> c.
bool rule2(Graph& graph) {
  bool modified = false;
  const auto close = [&](Index a, Index c) {
    if (graph.mark(a, c) != circle) return;
    graph.set(a, c, arrow);
    modified = true;
  };
  for (Index b = 0; b < graph.size(); ++b)
    for (const Index c : nodes_with(graph, [&](Index v) { return graph.parent(b, v); }))
      for (const Index a : marked(graph, arrow, b)) close(a, c);
  for (Index c = 0; c < graph.size(); ++c)
    for (const Index b : marked(graph, arrow, c))
      for (const Index a : nodes_with(graph, [&](Index v) { return graph.parent(v, b); })) close(a, c);
  return modified;
}

// a *-> b <-* c, a *-o d o-* c, a and c not adjacent, d *-o b: d *-> b.
bool rule3(Graph& graph) {
  bool modified = false;
  for (Index b = 0; b < graph.size(); ++b)
    for (const Index d : marked(graph, circle, b)) {
      const Nodes sides =
          nodes_with(graph, [&](Index v) { return graph.mark(v, b) == arrow && graph.mark(v, d) == circle; });
      for (const Index a : sides)
        for (const Index c : sides) {
          if (a >= c || graph.adjacent(a, c)) continue;
          graph.set(d, b, arrow);
          modified = true;
        }
    }
  return modified;
}

// A discriminating path d .. a, b, c for b with b o-* c: b -> c if b separates d from c, else a <-> b <-> c.
bool rule4(Graph& graph, const SeparatingSets& separating) {
  bool modified = false;
  for (Index b = 0; b < graph.size(); ++b)
    for (const Index c : marked(graph, circle, b)) {
      const auto before =
          nodes_with(graph, [&](Index v) { return v != b && graph.parent(v, c) && graph.mark(b, v) == arrow; });
      for (const Index a : before) {
        const auto d = discriminating_start(graph, a, b, c);
        if (!d) continue;
        graph.set(b, c, arrow);
        if (separating.contains(*d, c, b)) {
          graph.set(c, b, tail);
        } else {
          graph.set(c, b, arrow);
          graph.set(b, a, arrow);
          graph.set(a, b, arrow);
        }
        modified = true;
      }
    }
  return modified;
}

// a o-o b with an uncovered path of circles from a to b: tails on the edge and on the path.
bool rule5(Graph& graph) {
  bool modified = false;
  std::vector<std::pair<Index, Index>> edges;
  for (Index a = 0; a < graph.size(); ++a)
    for (Index b = 0; b < graph.size(); ++b)
      if (graph.circles(a, b)) edges.emplace_back(a, b);
  const auto tails = [&](Index a, Index b) {
    graph.set(a, b, tail);
    graph.set(b, a, tail);
  };
  for (const auto& edge : edges) {
    const Index a = edge.first, b = edge.second;
    const auto beside = [&](Index end, Index other) {
      return nodes_with(
          graph, [&](Index v) { return v != a && v != b && graph.circles(v, end) && !graph.adjacent(v, other); });
    };
    const Nodes first = beside(a, b), last = beside(b, a);
    for (const Index x : first)
      for (const Index y : last) {
        const auto path = uncovered_path(graph, a, b, x, y, [&](Index u, Index v) { return graph.circles(u, v); });
        if (!path) continue;
        tails(a, b);
        Index before = a;
        for (const Index node : *path) {
          tails(before, node);
          before = node;
        }
        tails(before, b);
        modified = true;
      }
  }
  return modified;
}

// a - b o-* c: b -* c.
bool rule6(Graph& graph) {
  bool modified = false;
  for (Index b = 0; b < graph.size(); ++b) {
    if (nodes_with(graph, [&](Index a) { return graph.undirected(a, b); }).empty()) continue;
    for (const Index c : marked(graph, circle, b)) {
      graph.set(c, b, tail);
      modified = true;
    }
  }
  return modified;
}

// a -o b o-* c, a and c not adjacent: b -* c.
bool rule7(Graph& graph) {
  bool modified = false;
  for (Index b = 0; b < graph.size(); ++b) {
    const Nodes before = nodes_with(graph, [&](Index a) { return graph.has(a, tail, circle, b); });
    const Nodes open = marked(graph, circle, b);
    for (const Index a : before)
      for (const Index c : open) {
        if (a == c || graph.adjacent(a, c)) continue;
        graph.set(c, b, tail);
        modified = true;
      }
  }
  return modified;
}

// a -> b -> c or a -o b -> c, and a o-> c: a -> c.
bool rule8(Graph& graph) {
  bool modified = false;
  for (Index b = 0; b < graph.size(); ++b) {
    const Nodes before =
        nodes_with(graph, [&](Index a) { return graph.parent(a, b) || graph.has(a, tail, circle, b); });
    const Nodes after = nodes_with(graph, [&](Index c) { return graph.parent(b, c); });
    for (const Index a : before)
      for (const Index c : after) {
        if (!graph.has(a, circle, arrow, c)) continue;
        graph.set(c, a, tail);
        modified = true;
      }
  }
  return modified;
}

// a o-> c with an uncovered, potentially directed path a, b, .., c, b and c not adjacent: a -> c. One change per call.
bool rule9(Graph& graph) {
  const auto forward = [&](Index u, Index v) { return graph.possible_parent(u, v); };
  for (Index a = 0; a < graph.size(); ++a)
    for (Index c = 0; c < graph.size(); ++c) {
      if (!graph.has(a, circle, arrow, c)) continue;
      for (Index b = 0; b < graph.size(); ++b) {
        if (b == c || !graph.possible_parent(a, b) || graph.adjacent(b, c)) continue;
        for (Index d = 0; d < graph.size(); ++d) {
          if (d == a || d == b || !graph.possible_parent(d, c) || !uncovered_path(graph, a, c, b, d, forward)) continue;
          graph.set(c, a, tail);
          return true;
        }
      }
    }
  return false;
}

// Whether uncovered paths lead from a by two neighbours that are not adjacent to two parents of c.
bool two_paths(const Graph& graph, Index a, Index c, const Nodes& parents, bool strict) {
  const auto allowed = [&](Index u, Index v) { return strict ? graph.possible_parent(u, v) : graph.adjacent(u, v); };
  const Nodes children = nodes_with(graph, [&](Index v) { return v != c && graph.possible_parent(a, v); });
  if (children.size() < 2) return false;
  // reaches[p][e]: from a by children[e] to parents[p].
  std::vector<std::vector<char>> reaches;
  for (const Index b : parents) {
    reaches.emplace_back();
    for (const Index e : children) reaches.back().push_back(uncovered_path(graph, a, c, e, b, allowed) ? 1 : 0);
  }
  for (std::size_t b = 0; b < parents.size(); ++b)
    for (std::size_t d = b + 1; d < parents.size(); ++d)
      for (std::size_t e = 0; e < children.size(); ++e)
        for (std::size_t f = 0; f < children.size(); ++f)
          if (e != f && reaches[b][e] != 0 && reaches[d][f] != 0 && !graph.adjacent(children[e], children[f]))
            return true;
  return false;
}

// a o-> c, two parents of c, and such paths to them: a -> c. One change per call.
bool rule10(Graph& graph, bool strict) {
  for (Index c = 0; c < graph.size(); ++c) {
    const Nodes parents = nodes_with(graph, [&](Index v) { return graph.parent(v, c); });
    if (parents.size() < 2) continue;
    for (Index a = 0; a < graph.size(); ++a) {
      if (!graph.has(a, circle, arrow, c) || !two_paths(graph, a, c, parents, strict)) continue;
      graph.set(c, a, tail);
      return true;
    }
  }
  return false;
}

}  // namespace

void orient_colliders(Graph& graph, const SeparatingSets& separating) {
  for (Index z = 0; z < graph.size(); ++z) {
    const Nodes around = graph.neighbours(z);
    for (const Index x : around)
      for (const Index y : around) {
        if (x >= y || graph.adjacent(x, y) || separating.contains(x, y, z)) continue;
        graph.set(x, z, arrow);
        graph.set(y, z, arrow);
      }
  }
}

bool apply_rule(int rule, Graph& graph, const SeparatingSets& separating, bool strict_r10) {
  switch (rule) {
    case 1: return rule1(graph);
    case 2: return rule2(graph);
    case 3: return rule3(graph);
    case 4: return rule4(graph, separating);
    case 5: return rule5(graph);
    case 6: return rule6(graph);
    case 7: return rule7(graph);
    case 8: return rule8(graph);
    case 9: return rule9(graph);
    case 10: return rule10(graph, strict_r10);
    default: throw InvalidArgument("there is no orientation rule " + std::to_string(rule) + ", only 1 to 10");
  }
}

void apply_rules(std::span<const int> rules, Graph& graph, const SeparatingSets& separating, bool strict_r10) {
  for (bool modified = true; modified;) {
    modified = false;
    for (const int rule : rules) modified = apply_rule(rule, graph, separating, strict_r10) || modified;
  }
}

}  // namespace saddle::analysis::causal_discovery
