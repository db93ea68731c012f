#include "saddle/analysis/rank_collapse/mask.hpp"

#include <gmock/gmock.h>

#include "saddle/base/error.hpp"

namespace saddle::analysis::rank_collapse {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Index centres(const Graph& graph) { return std::count(graph.centre.begin(), graph.centre.end(), true); }
Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

// The table of the page, for all sizes and windows.
TEST(MaskGraph, FamiliesHaveTheirCentresAndRadius) {
  for (Index N = 2; N <= 14; ++N) {
    EXPECT_EQ(graph_of(complete_mask(N)).radius, 1);
    EXPECT_EQ(centres(graph_of(complete_mask(N))), N);
    EXPECT_EQ(graph_of(causal_mask(N)).radius, 1);
    EXPECT_EQ(centres(graph_of(causal_mask(N))), 1);
    for (Index w = 1; w < N; ++w) {
      const Graph sliding = graph_of(sliding_mask(N, w)), one_sided = graph_of(uni_sliding_mask(N, w));
      EXPECT_EQ(sliding.radius, ceil_div(N / 2, w)) << N << " " << w;
      EXPECT_TRUE(sliding.strongly_connected);
      EXPECT_EQ(one_sided.radius, ceil_div(N - 1, w)) << N << " " << w;
      EXPECT_EQ(centres(one_sided), 1);
      EXPECT_FALSE(one_sided.strongly_connected);
      const Graph prefix = graph_of(prefix_mask(N, w));
      EXPECT_EQ(centres(prefix), w);
      EXPECT_EQ(prefix.radius, 1);
      const Graph star = graph_of(star_mask(N, w));
      EXPECT_EQ(centres(star), 1);
      EXPECT_TRUE(star.centre[static_cast<std::size_t>(w)]);
      const Graph blocks = graph_of(blocks_mask(N, w));
      EXPECT_EQ(centres(blocks), 0) << N << " " << w;
      EXPECT_EQ(blocks.radius, -1);
      EXPECT_FALSE(blocks.quasi_strongly_connected);
    }
    EXPECT_TRUE(graph_of(blocks_mask(N, N)).strongly_connected);
  }
}

TEST(MaskGraph, EccentricityFollowsTheEdges) {
  // 0 -> 1 -> 2 -> 0 and 2 -> 3: token 1 attends to 0, 2 to 1, 0 and 3 to 2.
  Mask mask({4, 4});
  mask(1, 0) = mask(2, 1) = mask(0, 2) = mask(3, 2) = 1;
  const Graph graph = graph_of(mask);
  EXPECT_THAT(graph.eccentricity, ElementsAre(3, 2, 2, -1));
  EXPECT_EQ(graph.radius, 2);
  EXPECT_EQ(graph.nearest_centres, 2);
  EXPECT_FALSE(graph.self_loops);
  EXPECT_FALSE(graph.strongly_connected);
}

TEST(MaskGraph, OneTokenIsItsOwnCentre) {
  const Graph graph = graph_of(causal_mask(1));
  EXPECT_EQ(graph.radius, 0);
  EXPECT_TRUE(graph.strongly_connected);
}

TEST(Masks, PaddingIsRemoved) {
  const Mask mask = without_padding(uni_sliding_mask(5, 1), {true, false, true, true, false});
  EXPECT_EQ(mask.shape()[0], 3);
  EXPECT_EQ(mask(1, 0), 0);
  EXPECT_EQ(mask(2, 1), 1);
  EXPECT_THROW(without_padding(causal_mask(3), {true, false}), InvalidArgument);
  EXPECT_THROW(without_padding(causal_mask(2), {false, false}), InvalidArgument);
}

TEST(Masks, ByName) {
  for (const std::string_view kind : mask_kinds()) EXPECT_EQ(make_mask(kind, 6, 2).shape()[0], 6) << kind;
  EXPECT_EQ(make_mask("uni_sliding", 6, 2), uni_sliding_mask(6, 2));
  EXPECT_EQ(make_mask("star", 6, 2), star_mask(6, 2));
  try {
    make_mask("slidng", 6, 2);
    ADD_FAILURE();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.hint(), HasSubstr("'sliding'"));
  }
}

TEST(Masks, RefuseImpossibleSizes) {
  EXPECT_THROW(causal_mask(0), InvalidArgument);
  EXPECT_THROW(complete_mask(-1), InvalidArgument);
  EXPECT_THROW(sliding_mask(4, -1), InvalidArgument);
  EXPECT_THROW(uni_sliding_mask(4, -1), InvalidArgument);
  EXPECT_THROW(prefix_mask(4, -1), InvalidArgument);
  EXPECT_THROW(star_mask(4, 4), InvalidArgument);
  EXPECT_THROW(blocks_mask(4, 0), InvalidArgument);
  EXPECT_THROW(graph_of(Mask({2, 3})), InvalidArgument);
  EXPECT_THROW(graph_of(Mask({0, 0})), InvalidArgument);
}

}  // namespace
}  // namespace saddle::analysis::rank_collapse
