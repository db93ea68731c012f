#include "saddle/analysis/causal_discovery/cleann.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>

#include "saddle/base/error.hpp"

namespace saddle::analysis::causal_discovery {
namespace {

void join(Graph& graph, Index a, Index b, Mark at_a, Mark at_b) {
  graph.set(b, a, at_a);
  graph.set(a, b, at_b);
}

// 0 <-> 1 <-> 2, where 1 is a collider between 0 and 2; 2 - 3 without one at 2.
Graph collider_path() {
  Graph graph(4);
  join(graph, 0, 1, Mark::circle, Mark::arrow);
  join(graph, 2, 1, Mark::circle, Mark::arrow);
  join(graph, 2, 3, Mark::circle, Mark::circle);
  return graph;
}

TEST(PdsTree, FollowsCollidersOnly) {
  const PdsTree tree = pds_tree(collider_path(), 0);
  EXPECT_EQ(tree.members(), Nodes({1, 2}));
  EXPECT_EQ(tree.distance, (std::vector<Index>{0, 1, 2, -1}));
  EXPECT_EQ(pds_tree(collider_path(), 0, 1).members(), Nodes({1}));
  EXPECT_TRUE(pds_tree(collider_path(), 0, 0).members().empty());
}

// Against the definition: every member is reached through members.
TEST(PdsTree, ClosedSets) {
  const PdsTree tree = pds_tree(Graph::complete(5, Mark::circle), 2, 3);
  const std::vector<char> all(5, 1);
  for (Index size = 1; size <= 4; ++size) {
    const auto sets = tree.closed_sets(size, all);
    EXPECT_TRUE(std::is_sorted(sets.begin(), sets.end()));
    EXPECT_EQ(sets.size(), (std::vector<std::size_t>{4, 6, 4, 1})[static_cast<std::size_t>(size) - 1]);
  }
  const PdsTree path = pds_tree(collider_path(), 0);
  EXPECT_EQ(path.closed_sets(1, std::vector<char>(4, 1)), std::vector<Nodes>{Nodes{1}});  // 2 alone is not reached
  EXPECT_EQ(path.closed_sets(2, std::vector<char>(4, 1)), (std::vector<Nodes>{{1, 2}}));
  EXPECT_TRUE(path.closed_sets(2, {1, 0, 1, 1}).empty());
  EXPECT_TRUE(path.closed_sets(3, std::vector<char>(4, 1)).empty());
}

// Large sets take another form inside.
TEST(PdsTree, LargeSetsAreThoseOfTheDefinition) {
  const Index n = 16;
  Graph graph = Graph::complete(n, Mark::circle);
  for (Index v = 0; v + 4 < n; ++v) graph.remove(v, v + 4);
  for (Index v = 2; v + 3 < n; v += 2) graph.remove(v, v + 3);
  const PdsTree tree = pds_tree(graph, 12, 5);
  std::vector<char> allowed(static_cast<std::size_t>(n), 1);
  allowed[5] = 0;
  // Whether all of the set, as bits, are reached through it.
  const auto closed = [&](unsigned set) {
    unsigned reached = 0;
    std::vector<Index> open{0};
    while (!open.empty()) {
      const auto& vertex = tree.vertices[static_cast<std::size_t>(open.back())];
      open.pop_back();
      for (Index child = vertex.first; child < vertex.end; ++child) {
        const unsigned node = 1U << tree.vertices[static_cast<std::size_t>(child)].node;
        if ((set & node) == 0) continue;
        reached |= node;
        open.push_back(child);
      }
    }
    return reached == set;
  };
  for (const Index size : {1, 2, 5, 9, 13}) {
    std::vector<Nodes> expected;
    for (unsigned set = 0; set < 1U << n; ++set) {
      if (static_cast<Index>(std::popcount(set)) != size || !closed(set)) continue;
      Nodes nodes;
      for (Index v = 0; v < n; ++v)
        if ((set >> v & 1) != 0 && allowed[static_cast<std::size_t>(v)] != 0) nodes.push_back(v);
      if (static_cast<Index>(nodes.size()) == size) expected.push_back(nodes);
    }
    EXPECT_FALSE(expected.empty());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(tree.closed_sets(size, allowed), expected) << size;
  }
}

TEST(Explain, SmallestFirstAndMinimal) {
  const Graph graph = collider_path();
  const IsExplanation holds_two = [](const Nodes& tokens, Index) {
    return std::find(tokens.begin(), tokens.end(), 2) != tokens.end();
  };
  const Explanations found = explain(graph, 0, holds_two);
  ASSERT_EQ(found.found.size(), 1U);
  EXPECT_EQ(found.found[0].tokens, Nodes({1, 2}));
  EXPECT_EQ(found.found[0].distance, 3);
  EXPECT_EQ(found.candidates.size(), 2U);
  const IsExplanation anything = [](const Nodes&, Index) { return true; };
  EXPECT_EQ(explain(graph, 0, anything).found.size(), 1U);
  ExplainOptions all;
  all.search_minimal = false;
  EXPECT_EQ(explain(graph, 0, anything, all).found.size(), 2U);
  all.max_set_size = 1;
  EXPECT_EQ(explain(graph, 0, anything, all).found.size(), 1U);
}

// Every set that is judged was announced, no other, and size by size.
TEST(Explain, SetsAreAnnounced) {
  std::vector<Nodes> announced, judged;
  ExplainOptions options;
  options.max_judged = 7;
  options.prepare = [&](const std::vector<Nodes>& sets) {
    announced.insert(announced.end(), sets.begin(), sets.end());
  };
  const IsExplanation never = [&](const Nodes& tokens, Index) {
    judged.push_back(tokens);
    return false;
  };
  explain(Graph::complete(5, Mark::circle), 2, never, options);
  EXPECT_EQ(judged.size(), 7U);
  EXPECT_EQ(announced, judged);
}

TEST(Explain, WithoutAJudgeTheWholeSet) {
  ASSERT_EQ(explain(collider_path(), 0).found.size(), 1U);
  EXPECT_EQ(explain(collider_path(), 0).found[0].tokens, Nodes({1, 2}));
  ExplainOptions small;
  small.max_set_size = 1;
  EXPECT_TRUE(explain(collider_path(), 0, {}, small).found.empty());
  EXPECT_THROW(explain(collider_path(), 4), InvalidArgument);
  EXPECT_THROW(explain(collider_path(), -1), InvalidArgument);
}

TEST(Explain, ExhaustiveSearchTriesEverything) {
  std::vector<Nodes> tried;
  const IsExplanation never = [&](const Nodes& tokens, Index target) {
    EXPECT_EQ(target, 1);
    tried.push_back(tokens);
    return false;
  };
  EXPECT_TRUE(explain_exhaustively(4, 1, never).empty());
  EXPECT_EQ(tried, (std::vector<Nodes>{{0}, {2}, {3}, {0, 2}, {0, 3}, {2, 3}, {0, 2, 3}}));
  const IsExplanation pairs = [](const Nodes& tokens, Index) { return tokens.size() >= 2; };
  EXPECT_EQ(explain_exhaustively(4, 1, pairs).size(), 3U);
  EXPECT_THROW(explain_exhaustively(4, 4, pairs), InvalidArgument);
  EXPECT_THROW(explain_exhaustively(4, 1, {}), InvalidArgument);
}

}  // namespace
}  // namespace saddle::analysis::causal_discovery
