#include "network_layout.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "saddle/base/random.hpp"

namespace saddle::cli {
namespace {

using Edges = std::vector<std::pair<Index, Index>>;

std::vector<Box> boxes(std::size_t n) { return std::vector<Box>(n, Box{50, 26}); }

void expect_apart_and_inside(const Layout& layout, const std::vector<Box>& boxes) {
  ASSERT_EQ(layout.centres.size(), boxes.size());
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const auto [x, y] = layout.centres[i];
    EXPECT_GE(x, boxes[i].width / 2 - 1e-9);
    EXPECT_GE(y, boxes[i].height / 2 - 1e-9);
    EXPECT_LE(x, layout.width - boxes[i].width / 2 + 1e-9);
    EXPECT_LE(y, layout.height - boxes[i].height / 2 + 1e-9);
    for (std::size_t j = 0; j < i; ++j) {
      const auto [u, v] = layout.centres[j];
      EXPECT_TRUE(std::abs(x - u) >= (boxes[i].width + boxes[j].width) / 2 ||
                  std::abs(y - v) >= (boxes[i].height + boxes[j].height) / 2)
          << "boxes " << i << " and " << j << " overlap";
    }
  }
}

TEST(NetworkLayout, SparseGraphsHaveNoCrossings) {
  const Edges path{{0, 1}, {1, 2}, {2, 3}, {3, 4}}, star{{0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}},
      cycle{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 0}},
      ladder{{0, 1}, {1, 2}, {3, 4}, {4, 5}, {0, 3}, {1, 4}, {2, 5}};
  for (const auto& [n, edges] : {std::pair<std::size_t, Edges>{5, path}, {6, star}, {6, cycle}, {6, ladder}}) {
    const Layout layout = lay_out(boxes(n), edges, 840);
    expect_apart_and_inside(layout, boxes(n));
    EXPECT_EQ(crossings(layout, boxes(n), edges), 0) << n;
  }
}

TEST(NetworkLayout, PartsAndLonelyNodesKeepApart) {
  std::vector<Box> own = boxes(14);
  own[3].width = 140;
  const Edges edges{{0, 1}, {1, 2}, {0, 2}, {3, 4}, {5, 6}};
  const Layout layout = lay_out(own, edges, 300);
  expect_apart_and_inside(layout, own);
  EXPECT_GT(layout.height, 60);  // 14 boxes do not stand in one row of 300
}

TEST(NetworkLayout, RandomGraphs) {
  Stream stream(3, "graphs");
  for (const std::size_t n : {1U, 2U, 12U, 40U}) {
    Edges edges;
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = a + 1; b < n; ++b)
        if (stream.uniform() < 2.5 / static_cast<double>(n))
          edges.emplace_back(static_cast<Index>(a), static_cast<Index>(b));
    const Layout layout = lay_out(boxes(n), edges, 840);
    expect_apart_and_inside(layout, boxes(n));
    EXPECT_EQ(layout.centres, lay_out(boxes(n), edges, 840).centres);
  }
  EXPECT_TRUE(lay_out({}, {}, 840).centres.empty());
}

TEST(NetworkLayout, CrossingsAreCounted) {
  const Layout square{{{0, 0}, {100, 0}, {100, 100}, {0, 100}}, 100, 100};
  const std::vector<Box> small(4, Box{4, 4});
  EXPECT_EQ(crossings(square, small, {{0, 2}, {1, 3}}), 1);
  EXPECT_EQ(crossings(square, small, {{0, 1}, {2, 3}}), 0);
  const Layout line{{{0, 0}, {50, 0}, {100, 0}}, 100, 0};
  EXPECT_EQ(crossings(line, {{4, 4}, {4, 4}, {4, 4}}, {{0, 2}}), 2);  // through a box
}

}  // namespace
}  // namespace saddle::cli
