// PC, FCI and ICD on graphs whose answer is known.
#include "saddle/analysis/causal_discovery/learn.hpp"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <ctime>
#include <numeric>

#include "saddle/analysis/causal_discovery/correlation.hpp"
#include "saddle/analysis/causal_discovery/orientation.hpp"
#include "saddle/analysis/causal_discovery/pds_tree.hpp"
#include "saddle/analysis/causal_discovery/progress_internal.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/base/random.hpp"

namespace saddle::analysis::causal_discovery {
namespace {

using Dag = Array<std::uint8_t, 2>;

Dag random_dag(Index n, double density, Stream& stream) {
  Dag dag({n, n});
  std::vector<Index> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), Index{0});
  stream.shuffle(order);
  for (std::size_t i = 0; i < order.size(); ++i)
    for (std::size_t j = i + 1; j < order.size(); ++j)
      if (stream.uniform() < density) dag(order[i], order[j]) = 1;
  return dag;
}

Nodes first(Index n) {
  Nodes nodes(static_cast<std::size_t>(n));
  std::iota(nodes.begin(), nodes.end(), Index{0});
  return nodes;
}

Index total(const Discovery& found) { return std::accumulate(found.tests.begin(), found.tests.end(), Index{0}); }

// Observations [samples, n] of linear equations along the graph, and Fisher's z on them.
IndependenceTest linear(Index n, double density, Index samples, std::uint64_t seed) {
  Stream stream(seed, "linear");
  Matrix weights({n, n}), x({samples, n});
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < i; ++j)
      if (stream.uniform() < density) weights(i, j) = 0.4 + 0.4 * stream.uniform();
  for (Index s = 0; s < samples; ++s)
    for (Index i = 0; i < n; ++i) {
      x(s, i) = stream.normal();
      for (Index j = 0; j < i; ++j) x(s, i) += weights(i, j) * x(s, j);
    }
  return FisherZ(correlation(x), static_cast<double>(samples));
}

TEST(Graph, FindsDirectedCycles) {
  Graph graph(5);
  const auto add = [&](Index a, Index b) {
    graph.set(a, b, Mark::arrow);
    graph.set(b, a, Mark::tail);
  };
  for (const auto& [a, b] : {std::pair{0, 1}, {1, 2}, {0, 2}, {2, 3}, {4, 1}}) add(a, b);
  EXPECT_TRUE(graph.directed_cycle().empty());
  add(3, 1);
  EXPECT_EQ(graph.directed_cycle(), (std::vector<Index>{1, 2, 3}));
  graph.set(2, 1, Mark::arrow);  // 1 <-> 2 is no step
  EXPECT_TRUE(graph.directed_cycle().empty());
}

TEST(Pc, ChainAndCollider) {
  Dag dag({4, 4});
  dag(0, 1) = dag(1, 2) = 1;  // a chain has no direction of its own
  const Discovery chain = pc(DSeparation(dag, {0, 1, 2}));
  EXPECT_TRUE(chain.graph.undirected(0, 1));
  EXPECT_TRUE(chain.graph.undirected(1, 2));
  EXPECT_FALSE(chain.graph.adjacent(0, 2));
  EXPECT_EQ(chain.separating.at(2, 0), Nodes{1});
  EXPECT_EQ(chain.tests, (std::vector<Index>{3, 3}));

  dag(3, 1) = 1;  // 0 -> 1 <- 3, and then 1 -> 2
  const Discovery collider = pc(DSeparation(dag, first(4)));
  EXPECT_TRUE(collider.graph.parent(0, 1));
  EXPECT_TRUE(collider.graph.parent(3, 1));
  EXPECT_TRUE(collider.graph.parent(1, 2));
}

// With the oracle PC finds the skeleton, and no arrow that the graph contradicts.
TEST(Pc, OracleGivesTheEquivalenceClass) {
  Stream stream(11, "dags");
  for (int trial = 0; trial < 40; ++trial) {
    const Index n = 4 + static_cast<Index>(stream.below(6));
    const Dag dag = random_dag(n, 0.35, stream);
    Options options;
    options.stable = trial % 2 == 1;
    const Discovery found = pc(DSeparation(dag, first(n)), options);
    for (Index a = 0; a < n; ++a)
      for (Index b = 0; b < n; ++b) {
        if (a == b) continue;
        EXPECT_EQ(found.graph.adjacent(a, b), dag(a, b) != 0 || dag(b, a) != 0);
        if (found.graph.parent(a, b)) {
          EXPECT_EQ(dag(a, b), 1);
        }
      }
  }
}

// With hidden and selected nodes FCI and ICD find the same graph, ICD with fewer tests.
TEST(Icd, OracleAgreesWithFci) {
  Stream stream(12, "hidden");
  Index fci_tests = 0, icd_tests = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const Index n = 4 + static_cast<Index>(stream.below(3)), hidden = static_cast<Index>(stream.below(4));
    const bool selected = stream.uniform() < 0.4;
    const Index m = n + hidden + (selected ? 1 : 0);
    const IndependenceTest test = DSeparation(random_dag(m, 0.3, stream), first(n), selected ? Nodes{m - 1} : Nodes{});
    const Discovery by_fci = fci(test), by_icd = icd(test);
    EXPECT_EQ(by_fci.graph, by_icd.graph) << trial;
    EXPECT_EQ(by_icd.rounds.back(), by_icd.graph);
    fci_tests += total(by_fci);
    icd_tests += total(by_icd);
  }
  EXPECT_LT(icd_tests, fci_tests);
}

// Arrowheads never point at an ancestor, and tails mark ancestors (of the other end or of a selected node).
TEST(Icd, MarksAreTrue) {
  Stream stream(13, "marks");
  for (int trial = 0; trial < 40; ++trial) {
    const Index n = 6, m = 8;
    const Dag dag = random_dag(m, 0.35, stream);
    Array<char, 2> ancestor({m, m});
    for (Index k = 0; k < m; ++k)  // paths of growing length
      for (Index i = 0; i < m; ++i)
        for (Index j = 0; j < m; ++j)
          for (Index l = 0; l < m; ++l)
            if (dag(i, j) != 0 || (ancestor(i, l) != 0 && ancestor(l, j) != 0)) ancestor(i, j) = 1;
    const Graph graph = icd(DSeparation(dag, first(n))).graph;
    for (Index a = 0; a < n; ++a)
      for (Index b = 0; b < n; ++b) {
        if (a == b) continue;
        if (graph.mark(a, b) == Mark::arrow) {
          EXPECT_EQ(ancestor(b, a), 0) << trial;
        }
        if (graph.mark(b, a) == Mark::tail) {
          EXPECT_EQ(ancestor(a, b), 1) << trial;
        }
      }
  }
}

// One head of N tokens without structure: weights drawn evenly from all that sum to 1.
Matrix even_attention(Index N, std::uint64_t seed) {
  Stream stream(seed, "attention");
  Matrix attention({N, N});
  for (Index i = 0; i < N; ++i) {
    double sum = 0;
    for (Index j = 0; j < N; ++j) sum += attention(i, j) = -std::log(1 - stream.uniform());
    for (Index j = 0; j < N; ++j) attention(i, j) /= sum;
  }
  return attention;
}

// ICD as it is defined: one pair after the other, trees and ancestors of the graph as it is.
Discovery one_after_the_other(const IndependenceTest& test, const Options& options) {
  const Index n = size(test);
  Discovery found{Graph::complete(n, Mark::circle), SeparatingSets(n), {}, {}};
  Graph& graph = found.graph;
  const auto arrows = [&] {
    graph.set_all(Mark::circle);
    orient_colliders(graph, found.separating);
    apply_rules(std::array{1, 2, 3, 4}, graph, found.separating);
  };
  const auto tails = [&] {
    apply_rules(std::array{5, 6, 7}, graph, found.separating);
    apply_rules(std::array{8, 9, 10}, graph, found.separating);
  };
  const auto candidates = [&](Index a, Index b, Index r) {
    std::vector<std::pair<Index, Nodes>> sets;
    if (r == 0) sets.emplace_back(0, Nodes{});
    std::vector<char> allowed(static_cast<std::size_t>(n), 1);
    if (r > 1)
      for (Index v = 0; v < n; ++v)
        allowed[static_cast<std::size_t>(v)] = graph.possible_ancestors(a)[static_cast<std::size_t>(v)] != 0 ||
                                                       graph.possible_ancestors(b)[static_cast<std::size_t>(v)] != 0
                                                   ? 1
                                                   : 0;
    for (const Index root : {a, b}) {
      if (r == 0) continue;
      const PdsTree tree = pds_tree(graph, root, r);
      for (Nodes& nodes : tree.closed_sets(r, allowed)) {
        if (std::count(nodes.begin(), nodes.end(), a) + std::count(nodes.begin(), nodes.end(), b) > 0) continue;
        Index sum = 0;
        for (const Index node : nodes) sum += tree.distance[static_cast<std::size_t>(node)];
        sets.emplace_back(sum, std::move(nodes));
      }
    }
    std::stable_sort(sets.begin(), sets.end(), [](const auto& s, const auto& t) { return s.first < t.first; });
    return sets;
  };
  bool done = false;
  for (Index r = 0; !done && (options.max_size < 0 || r <= options.max_size); ++r) {
    done = r > 0;
    found.tests.push_back(0);
    for (Index a = 0; a < n; ++a)
      for (Index b = a + 1; b < n; ++b) {
        if (!graph.adjacent(a, b)) continue;
        std::vector<Nodes> tried;
        for (const auto& [sum, nodes] : candidates(a, b, r)) {
          done = false;
          if (std::find(tried.begin(), tried.end(), nodes) != tried.end()) continue;
          tried.push_back(nodes);
          ++found.tests.back();
          if (!(p_value(test, a, b, nodes) > options.alpha)) continue;
          graph.remove(a, b);
          found.separating.set(a, b, nodes);
          break;
        }
      }
    if (!done || r < 2) arrows();
    if (done || r == 1) tails();
    found.rounds.push_back(graph);
  }
  if (!done) tails();
  return found;
}

TEST(Icd, SameAsOnePairAfterTheOther) {
  for (const bool local : {false, true})
    for (const double samples : {40.0, 400.0, 3000.0}) {
      const Index N = 16;
      Matrix attention = even_attention(N, 26);
      if (local)
        for (Index i = 0; i < N; ++i)
          for (Index j = 0; j < N; ++j) attention(i, j) *= std::exp(-std::fabs(static_cast<double>(i - j)) / 2);
      const IndependenceTest test = FisherZ(attention_correlation(attention), samples);
      Options options;
      options.alpha = 0.05;
      options.max_size = 4;
      const Discovery expected = one_after_the_other(test, options), found = icd(test, options);
      EXPECT_EQ(found.graph, expected.graph) << local << " " << samples;
      EXPECT_EQ(found.tests, expected.tests) << local << " " << samples;
      EXPECT_EQ(found.rounds, expected.rounds) << local << " " << samples;
      for (Index a = 0; a < N; ++a)
        for (Index b = 0; b < a; ++b) EXPECT_EQ(found.separating.at(a, b), expected.separating.at(a, b));
    }
}

// An edge that goes at once costs little more than one that goes at the end of the round.
TEST(Icd, DeletionsDoNotStartTheRoundAnew) {
  const IndependenceTest test = FisherZ(attention_correlation(even_attention(50, 27)), 2000);
  Options options;
  options.alpha = 0.05;
  options.max_size = 2;
  const auto fastest = [&](bool stable) {
    options.stable = stable;
    std::clock_t best = 0;
    for (int i = 0; i < 3; ++i) {
      const std::clock_t before = std::clock();
      const Discovery found = icd(test, options);
      EXPECT_GT(found.tests.back(), 10000);
      const std::clock_t taken = std::clock() - before;
      best = i == 0 ? taken : std::min(best, taken);
    }
    return static_cast<double>(best);
  };
  set_threads(1);
  EXPECT_LT(fastest(false), 4 * fastest(true));
  set_threads(0);
}

// Attention to near tokens leaves long chains, in which most paths lead nowhere.
TEST(Icd, LocalAttentionEnds) {
  const Index N = 100;
  Matrix attention({N, N});
  Stream stream(3, "local");
  for (Index i = 0; i < N; ++i)
    for (Index j = 0; j < N; ++j)
      attention(i, j) = std::exp(-std::fabs(static_cast<double>(i - j)) / 3) * (0.5 + stream.uniform());
  const Discovery found = icd(FisherZ(attention_correlation(attention), 768));
  EXPECT_EQ(found.rounds.back(), found.graph);
  for (Index i = 0; i + 60 < N; ++i) EXPECT_FALSE(found.graph.adjacent(i, i + 60));
}

// Given n - 3 variables the deviation of Fisher's z is infinite and everything looks independent.
TEST(Learn, SizesEndWhereFisherZDoes) {
  Matrix R({4, 4}, 0.9999);
  for (Index i = 0; i < 4; ++i) R(i, i) = 1;
  for (const auto learn : {pc, fci, icd}) {
    const Discovery found = learn(FisherZ(R, 4), {});
    EXPECT_EQ(found.tests, std::vector<Index>{6});
    for (Index i = 0; i < 4; ++i) EXPECT_EQ(found.graph.degree(i), 3);
    EXPECT_LE(learn(FisherZ(R, 5.5), {}).tests.size(), 2U);
  }
}

// Searches that take long say so.
TEST(Learn, ProgressIsLogged) {
  Options options;
  Progress often("icd", options, 0), seldom("icd", options, 1000);
  testing::internal::CaptureStderr();
  for (Progress* progress : {&often, &seldom}) {
    progress->begin("sets of 2", 30);
    progress->count(2);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "saddle info: icd: sets of 2, 2 of 30 pairs, 0 s so far; a smaller max_size, fewer nodes or stable=true "
            "end sooner\n");
}

TEST(Learn, ThreadsDoNotMatter) {
  const IndependenceTest test = linear(40, 0.1, 400, 21);
  for (const bool stable : {false, true})
    for (const auto learn : {pc, fci, icd}) {
      Options options;
      options.stable = stable;
      options.max_size = learn == fci ? 3 : -1;
      set_threads(1);
      const Discovery one = learn(test, options);
      set_threads(4);
      const Discovery four = learn(test, options);
      set_threads(0);
      EXPECT_EQ(one.graph, four.graph);
      EXPECT_EQ(one.tests, four.tests);
      EXPECT_EQ(one.rounds, four.rounds);
      for (Index a = 0; a < 40; ++a)
        for (Index b = 0; b < a; ++b) EXPECT_EQ(one.separating.at(a, b), four.separating.at(a, b));
    }
}

// Pairs are searched ahead of their turn; the outcome must be that of one pair after the other.
TEST(Pc, SameAsOnePairAfterTheOther) {
  const IndependenceTest test = linear(30, 0.15, 150, 22);
  const Options options;
  Graph graph = Graph::complete(30, Mark::tail);
  SeparatingSets separating(30);
  std::vector<Index> tests;
  const auto try_sets = [&](Index a, Index b, Index k, const Nodes& pool, const Nodes* skip) {
    std::vector<bool> chosen(pool.size(), false);
    if (static_cast<Index>(pool.size()) < k) return false;
    std::fill(chosen.begin(), chosen.begin() + k, true);
    do {
      Nodes z;
      for (std::size_t i = 0; i < pool.size(); ++i)
        if (chosen[i]) z.push_back(pool[i]);
      if (skip != nullptr && std::includes(skip->begin(), skip->end(), z.begin(), z.end())) continue;
      ++tests[static_cast<std::size_t>(k)];
      if (!(p_value(test, a, b, z) > options.alpha)) continue;
      graph.remove(a, b);
      separating.set(a, b, z);
      return true;
    } while (std::prev_permutation(chosen.begin(), chosen.end()));
    return false;
  };
  for (Index k = 0;; ++k) {
    Index largest = 0;
    for (Index a = 0; a < 30; ++a) largest = std::max(largest, graph.degree(a));
    if (largest <= k) break;
    tests.push_back(0);
    for (Index a = 0; a < 30; ++a)
      for (Index b = a + 1; b < 30; ++b) {
        if (!graph.adjacent(a, b)) continue;
        Nodes of_a = graph.neighbours(a), of_b = graph.neighbours(b);
        std::erase(of_a, b);
        std::erase(of_b, a);
        if (!try_sets(a, b, k, of_a, nullptr)) try_sets(a, b, k, of_b, &of_a);
      }
  }
  const Discovery found = pc(test, options);
  EXPECT_EQ(found.tests, tests);
  for (Index a = 0; a < 30; ++a)
    for (Index b = 0; b < a; ++b) {
      EXPECT_EQ(found.graph.adjacent(a, b), graph.adjacent(a, b));
      EXPECT_EQ(found.separating.at(a, b), separating.at(a, b));
    }
}

// Stable: the skeleton does not depend on the order of the variables.
TEST(Pc, StableSkeletonIgnoresTheOrder) {
  const IndependenceTest test = linear(25, 0.2, 120, 23);
  std::vector<Index> order(first(25));
  Stream stream(24, "order");
  stream.shuffle(order);
  const IndependenceTest shuffled = FisherZ(submatrix(std::get<FisherZ>(test).correlation(), order), 120);
  Options options;
  options.stable = true;
  const Graph one = pc(test, options).graph, other = pc(shuffled, options).graph;
  for (Index a = 0; a < 25; ++a)
    for (Index b = 0; b < 25; ++b)
      EXPECT_EQ(other.adjacent(a, b),
                one.adjacent(order[static_cast<std::size_t>(a)], order[static_cast<std::size_t>(b)]));
}

TEST(Learn, LimitsAndOptions) {
  const IndependenceTest test = linear(20, 0.3, 300, 25);
  Options options;
  options.max_size = 1;
  for (const auto learn : {pc, fci, icd}) EXPECT_LE(learn(test, options).tests.size(), 2U);
  options.max_size = -2;
  EXPECT_THROW(pc(test, options), InvalidArgument);
  options.max_size = -1;
  for (const double alpha : {0.0, 1.0, -0.5, std::nan("")}) {
    options.alpha = alpha;
    for (const auto learn : {pc, fci, icd}) EXPECT_THROW(learn(test, options), InvalidArgument);
  }
}

TEST(Learn, OneAndTwoVariables) {
  Dag dag({2, 2});
  for (const auto learn : {pc, fci, icd}) {
    EXPECT_EQ(learn(DSeparation(dag, {0}), {}).graph.size(), 1);
    EXPECT_FALSE(learn(DSeparation(dag, {0, 1}), {}).graph.adjacent(0, 1));
  }
  dag(0, 1) = 1;
  EXPECT_TRUE(fci(DSeparation(dag, {0, 1})).graph.circles(0, 1));
  EXPECT_TRUE(icd(DSeparation(dag, {0, 1})).graph.circles(0, 1));
  EXPECT_TRUE(pc(DSeparation(dag, {0, 1})).graph.undirected(0, 1));
}

TEST(Orientation, Refuses) {
  Graph graph(3);
  EXPECT_THROW(apply_rule(0, graph, SeparatingSets(3)), InvalidArgument);
  EXPECT_THROW(apply_rule(11, graph, SeparatingSets(3)), InvalidArgument);
}

// 0 o-> 1, and a ladder of circles from 0 by 2 that does not reach 3, the other neighbour of 1: it has a million paths
// and more, and none is the one wanted.
TEST(Orientation, DeadEndsAreLeft) {
  const Index rungs = 20, n = 4 + 2 * rungs;
  Graph graph(n);
  const auto join = [&](Index a, Index b) {
    graph.set(a, b, Mark::circle);
    graph.set(b, a, Mark::circle);
  };
  join(0, 1);
  graph.set(0, 1, Mark::arrow);
  join(0, 2);
  join(1, 3);
  join(2, 4);
  join(2, 5);
  for (Index node = 4; node + 2 < n; ++node) {
    const Index next = node / 2 * 2 + 2;
    join(node, next);
    join(node, next + 1);
  }
  const Graph before = graph;
  EXPECT_FALSE(apply_rule(9, graph, SeparatingSets(n)));
  EXPECT_EQ(graph, before);
  join(n - 1, 3);  // now the ladder leads there
  EXPECT_TRUE(apply_rule(9, graph, SeparatingSets(n)));
  EXPECT_TRUE(graph.parent(0, 1));
}

// Two paths from 0 by 1 and by 2 to the parents 3 and 4 of 5. On the way by 1 an arrow points back.
TEST(Orientation, StrictRuleTenWantsDirectedPaths) {
  Graph graph(6);
  const auto edge = [&](Index a, Mark at_a, Mark at_b, Index b) {
    graph.set(b, a, at_a);
    graph.set(a, b, at_b);
  };
  edge(0, Mark::circle, Mark::arrow, 5);
  edge(0, Mark::circle, Mark::circle, 1);
  edge(0, Mark::circle, Mark::circle, 2);
  edge(3, Mark::arrow, Mark::arrow, 1);
  edge(2, Mark::circle, Mark::circle, 4);
  edge(3, Mark::tail, Mark::arrow, 5);
  edge(4, Mark::tail, Mark::arrow, 5);
  Graph loose = graph, strict = graph;
  EXPECT_TRUE(apply_rule(10, loose, SeparatingSets(6)));
  EXPECT_TRUE(loose.parent(0, 5));
  EXPECT_FALSE(apply_rule(10, strict, SeparatingSets(6), true));
  EXPECT_EQ(strict, graph);
}

}  // namespace
}  // namespace saddle::analysis::causal_discovery
