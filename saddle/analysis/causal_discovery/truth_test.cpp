#include "saddle/analysis/causal_discovery/truth.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdio>
#include <fstream>

#include "saddle/base/error.hpp"

namespace saddle::analysis::causal_discovery {
namespace {

const TrueEdges chain{{"a", "b"}, {"b", "c"}};

TEST(Truth, LinesAndTables) {
  EXPECT_EQ(parse_truth("Graph Nodes:\na;b;c\n\nGraph Edges:\n1. a --> b\n2. b --> c\n", "graph.txt"), chain);
  EXPECT_EQ(parse_truth("Cause,Effect\na,b\nb,c\n", "graph.csv"), chain);
  EXPECT_EQ(parse_truth("from\tto\tweight\na\tb\t1\nb\tc\t2\n", "graph.tsv"), chain);
}

TEST(Truth, WhatIsNoGraphIsRefused) {
  EXPECT_THROW(parse_truth("cause\na\n", "graph.csv"), DataError);
  EXPECT_THROW(parse_truth("", "graph.csv"), DataError);
  EXPECT_THROW(parse_truth("1. -->\n", "graph.txt"), DataError);
  EXPECT_THROW(parse_truth("cause,effect\na,b\nb,b\n", "graph.csv"), DataError);
  EXPECT_THROW(read_truth("missing.csv"), IoError);
}

TEST(Truth, AnEmptyFileIsEmptyNotMissing) {
  const std::string file = testing::TempDir() + "saddle_empty_truth.csv";
  std::ofstream(file).close();
  EXPECT_THAT([&] { read_truth(file); }, testing::ThrowsMessage<DataError>(testing::HasSubstr("the file is empty")));
  std::remove(file.c_str());
  EXPECT_THROW(read_truth(testing::TempDir()), IoError);  // a folder
}

// a -> b, b - c, a - d beside a -> b -> c.
TEST(Truth, CountsEdgesAndArrowheads) {
  Graph graph(4);
  const auto edge = [&](Index a, Mark at_a, Mark at_b, Index b) {
    graph.set(b, a, at_a);
    graph.set(a, b, at_b);
  };
  edge(0, Mark::tail, Mark::arrow, 1);
  edge(1, Mark::tail, Mark::tail, 2);
  edge(0, Mark::arrow, Mark::circle, 3);
  const std::vector<std::string> names{"a", "b", "c", "d"};
  TrueEdges truth = chain;
  truth.emplace_back("c", "elsewhere");
  const Agreement found = compare(graph, names, truth);
  EXPECT_EQ(found.true_edges, 2);
  EXPECT_EQ(found.skipped, 1);
  EXPECT_EQ(found.edges, 3);
  EXPECT_EQ(found.right_edges, 2);
  EXPECT_EQ(found.arrows, 2);
  EXPECT_EQ(found.right_arrows, 1);
  EXPECT_DOUBLE_EQ(found.precision(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(found.recall(), 1);
  EXPECT_DOUBLE_EQ(found.arrow_precision(), 0.5);
  EXPECT_DOUBLE_EQ(found.arrow_recall(), 0.5);
  EXPECT_TRUE(std::isnan(compare(Graph(4), names, truth).precision()));
  EXPECT_EQ(compare(Graph(4), names, truth).recall(), 0);
  EXPECT_THROW(compare(graph, {"w", "x", "y", "z"}, chain), InvalidArgument);
}

// An arrow against the truth is an edge of the skeleton and no right arrowhead.
TEST(Truth, ATurnedArrowIsAnEdgeOnly) {
  Graph graph(2);
  graph.set(1, 0, Mark::arrow);
  graph.set(0, 1, Mark::tail);
  const Agreement found = compare(graph, {"a", "b"}, {{"a", "b"}});
  EXPECT_EQ(found.right_edges, 1);
  EXPECT_EQ(found.right_arrows, 0);
}

TEST(Truth, CausesOfEachOtherAreOneEdge) {
  Graph graph(2);
  graph.set(1, 0, Mark::arrow);
  graph.set(0, 1, Mark::arrow);
  const Agreement found = compare(graph, {"a", "b"}, {{"a", "b"}, {"b", "a"}});
  EXPECT_EQ(found.true_edges, 1);
  EXPECT_EQ(found.true_arrows, 2);
  EXPECT_EQ(found.recall(), 1);
  EXPECT_EQ(found.arrow_recall(), 1);
}

}  // namespace
}  // namespace saddle::analysis::causal_discovery
