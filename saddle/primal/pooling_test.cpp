#include "saddle/primal/pooling.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "saddle/primal/testing_internal.hpp"

namespace saddle::primal {
namespace {

using namespace testing;

Pooling two_d(Grid grid, Index prefix, Tail tail = Tail::partial) {
  Pooling pooling;
  pooling.pool = PoolShape::two_d;
  pooling.grid = grid;
  pooling.prefix = prefix;
  pooling.tail = tail;
  return pooling;
}

Pooling one_d(Tail tail) {
  Pooling pooling;
  pooling.tail = tail;
  return pooling;
}

// f_s = 2^floor(s/2), and 1,2 for two heads.
TEST(Pooling, DefaultFactors) {
  EXPECT_EQ(pooling_factors({}, 8), (std::vector<Index>{1, 1, 2, 2, 4, 4, 8, 8}));
  EXPECT_EQ(pooling_factors({}, 2), (std::vector<Index>{1, 2}));
  EXPECT_EQ(pooling_factors({}, 3), (std::vector<Index>{1, 1, 2}));
  EXPECT_EQ(pooling_factors({}, 1), (std::vector<Index>{1}));
  for (Index factor : pooling_factors({}, 200)) EXPECT_GE(factor, 1);
  Pooling pooling;
  pooling.factors = {3, 5};
  EXPECT_EQ(pooling_factors(pooling, 2), (std::vector<Index>{3, 5}));
}

TEST(Pooling, Windows1d) {
  EXPECT_EQ(pooling_windows(one_d(Tail::partial), 3, 7), (Windows{{0, 1, 2}, {3, 4, 5}, {6}}));
  EXPECT_EQ(pooling_windows(one_d(Tail::drop), 3, 7), (Windows{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(pooling_windows(one_d(Tail::partial), 9, 4), (Windows{{0, 1, 2, 3}}));
  EXPECT_EQ(pooling_windows(one_d(Tail::drop), 9, 4), Windows{});
  EXPECT_EQ(pooling_windows(one_d(Tail::partial), 1, 3), (Windows{{0}, {1}, {2}}));
  EXPECT_EQ(pooling_windows(one_d(Tail::partial), 2, 0), Windows{});
}

// A class token, then a 3x4 grid; the tail rule holds in both directions and windows are ordered row-major.
TEST(Pooling, Windows2d) {
  EXPECT_EQ(pooling_windows(two_d({3, 4}, 1), 2, 13), (Windows{{0}, {1, 2, 5, 6}, {3, 4, 7, 8}, {9, 10}, {11, 12}}));
  EXPECT_EQ(pooling_windows(two_d({3, 4}, 1, Tail::drop), 2, 13), (Windows{{0}, {1, 2, 5, 6}, {3, 4, 7, 8}}));
  EXPECT_EQ(pooling_windows(two_d({3, 4}, 1), 3, 13), (Windows{{0}, {1, 2, 3, 5, 6, 7, 9, 10, 11}, {4, 8, 12}}));
  EXPECT_EQ(pooling_windows(two_d({3, 4}, 1, Tail::drop), 4, 13), (Windows{{0}}));
  EXPECT_EQ(pooling_windows(two_d({}, 0), 2, 12), pooling_windows(two_d({3, 4}, 0), 2, 12));  // the most square grid
}

RC_GTEST_PROP(Pooling, WindowsPartitionTheTokens, ()) {
  const auto factor = *rc::gen::inRange<Index>(1, 6), rows = *rc::gen::inRange<Index>(1, 8),
             columns = *rc::gen::inRange<Index>(1, 8), prefix = *rc::gen::inRange<Index>(0, 3);
  const Tail tail = *rc::gen::element(Tail::partial, Tail::drop);
  const bool grid = *rc::gen::arbitrary<bool>();
  const Pooling pooling = grid ? two_d({rows, columns}, prefix, tail) : one_d(tail);
  const Index M = grid ? prefix + rows * columns : rows * columns;
  const Windows windows = pooling_windows(pooling, factor, M);
  RC_ASSERT(static_cast<Index>(windows.size()) == pooled_count(pooling, factor, M));
  std::set<Index> seen;
  std::size_t total = 0;
  for (const auto& window : windows) {
    RC_ASSERT(!window.empty());
    total += window.size();
    seen.insert(window.begin(), window.end());
    if (tail == Tail::drop && (!grid || window[0] >= prefix))
      RC_ASSERT(static_cast<Index>(window.size()) == (grid ? factor * factor : factor));
  }
  RC_ASSERT(seen.size() == total);  // no token twice
  const bool in_range = seen.empty() || (*seen.begin() >= 0 && *seen.rbegin() < M);
  RC_ASSERT(in_range);
  if (tail == Tail::partial) RC_ASSERT(static_cast<Index>(total) == M);
}

TEST(Pooling, MeansOverTheKeptTokens) {
  Stream stream(1, "pool");
  const Matrix x = random_matrix(5, 2, stream);
  const std::vector<std::uint8_t> keep{1, 0, 1, 0, 0};
  const Matrix y = pool({{0, 1, 2}, {3, 4}}, x, keep);
  for (Index c = 0; c < 2; ++c) {
    EXPECT_NEAR(y(0, c), (x(0, c) + x(2, c)) / 2, 1e-15);
    EXPECT_EQ(y(1, c), 0);  // nothing kept
  }
}

// <dy, pool(x)> = <pool_pullback(dy), x>: the pullback of a linear map is its adjoint.
TEST(Pooling, PullbackIsTheAdjoint) {
  Stream stream(2, "pool");
  const std::vector<std::uint8_t> keep{1, 1, 0, 1, 0, 0, 1};
  for (Index factor : {1, 2, 3, 7})
    for (Tail tail : {Tail::partial, Tail::drop}) {
      const Windows windows = pooling_windows(one_d(tail), factor, 7);
      const Matrix x = random_matrix(7, 3, stream);
      const Matrix dy = random_matrix(static_cast<Index>(windows.size()), 3, stream);
      const Matrix y = pool(windows, x, keep), dx = pool_pullback(windows, dy, keep, 7);
      double left = 0, right = 0;
      for (Index i = 0; i < y.size(); ++i) left += y.data()[i] * dy.data()[i];
      for (Index i = 0; i < x.size(); ++i) right += x.data()[i] * dx.data()[i];
      EXPECT_NEAR(left, right, 1e-13);
      EXPECT_NE(left, 0);
    }
}

}  // namespace
}  // namespace saddle::primal
