#include "saddle/base/view.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "saddle/base/error.hpp"
#include "saddle/base/shape.hpp"

namespace saddle {
namespace {

std::vector<int> counting(int n) {
  std::vector<int> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(View, DenseStridesAreRowMajor) {
  EXPECT_EQ((dense_strides<3>({2, 3, 4})), (std::array<Index, 3>{12, 4, 1}));
  EXPECT_EQ((dense_strides<1>({7})), (std::array<Index, 1>{1}));
  EXPECT_EQ(dense_strides(Shape{2, 3, 4}), (Shape{12, 4, 1}));
  EXPECT_EQ(dense_strides(Shape{}), Shape{});
}

TEST(View, IndicesFollowTheStrides) {
  auto memory = counting(24);
  const View<int, 3> view{memory.data(), {2, 3, 4}, {12, 4, 1}};
  EXPECT_EQ(view.size(), 24);
  EXPECT_EQ(view(1, 2, 3), 23);
  EXPECT_EQ(view[1][2][3], 23);
  EXPECT_EQ(&view(1, 0, 2), memory.data() + 14);
  view(0, 1, 0) = 100;
  EXPECT_EQ(memory[4], 100);
}

TEST(View, TransposedByItsStrides) {
  auto memory = counting(6);
  const View<int, 2> rows{memory.data(), {2, 3}, {3, 1}};
  const View<int, 2> columns{memory.data(), {3, 2}, {1, 3}};
  for (Index i = 0; i < 2; ++i)
    for (Index j = 0; j < 3; ++j) EXPECT_EQ(&rows(i, j), &columns(j, i));
}

TEST(View, NegativeStridesRunBackwards) {
  auto memory = counting(5);
  const View<int, 1> reversed{memory.data() + 4, {5}, {-1}};
  for (Index i = 0; i < 5; ++i) EXPECT_EQ(reversed[i], 4 - i);
  const View<int, 2> flipped{memory.data() + 3, {2, 2}, {-2, -1}};
  EXPECT_EQ(flipped(0, 0), 3);
  EXPECT_EQ(flipped(1, 1), 0);
  EXPECT_EQ(flipped[1][0], 1);
}

TEST(View, ZeroStridesBroadcast) {
  auto memory = counting(3);
  const View<int, 2> view{memory.data(), {4, 3}, {0, 1}};
  EXPECT_EQ(view.size(), 12);
  for (Index i = 0; i < 4; ++i)
    for (Index j = 0; j < 3; ++j) EXPECT_EQ(view(i, j), j);
}

TEST(View, ReadOnlyViewSharesMemory) {
  auto memory = counting(4);
  const View<int, 2> view{memory.data(), {2, 2}, {2, 1}};
  const View<const int, 2> read_only = view;
  memory[3] = 9;
  EXPECT_EQ(read_only(1, 1), 9);
  EXPECT_TRUE(static_cast<bool>(read_only));
  EXPECT_FALSE(static_cast<bool>(View<int, 2>{}));
  static_assert(!std::is_convertible_v<View<const int, 2>, View<int, 2>>);
}

TEST(View, AnEmptyExtentHasNoElements) {
  int memory = 0;
  EXPECT_EQ((View<int, 2>{&memory, {3, 0}, {0, 1}}.size()), 0);
}

TEST(Array, OwnsZeroedRowMajorMemory) {
  Array<double, 2> array({2, 3});
  EXPECT_EQ(array.size(), 6);
  for (double value : array) EXPECT_EQ(value, 0);
  array(1, 2) = 5;
  EXPECT_EQ(array.data()[5], 5);
  EXPECT_EQ(array.view()(1, 2), 5);
  const Array<double, 2> copy = array;
  array(1, 2) = 6;
  EXPECT_EQ(copy(1, 2), 5);
  EXPECT_NE(copy, array);
  EXPECT_EQ((Array<int, 1>({3}, 7)(2)), 7);
}

TEST(Array, DefaultIsEmpty) {
  const Matrix nothing;
  EXPECT_TRUE(nothing.empty());
  EXPECT_EQ(nothing.size(), 0);
  EXPECT_EQ(Matrix({0, 4}).size(), 0);
}

TEST(Array, EqualityComparesShapesToo) {
  EXPECT_NE(Matrix({2, 3}), Matrix({3, 2}));
  EXPECT_EQ(Matrix({2, 3}), Matrix({2, 3}));
}

TEST(Shape, IsWrittenWithParentheses) {
  EXPECT_EQ(to_string(Shape{2, 4, 31, 16}), "(2,4,31,16)");
  EXPECT_EQ(to_string(Shape{}), "()");
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(element_count({2, 3, 4}), 24);
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({2, 0, 4}), 0);
}

TEST(Shape, RefusesNegativeAndOverflowingExtents) {
  const Index huge = Index{1} << 40;
  EXPECT_THROW(element_count({2, -1}), InvalidArgument);
  EXPECT_THROW(element_count({huge, huge}), InvalidArgument);
  EXPECT_THROW(element_count({0, huge, huge}), InvalidArgument);  // its strides would overflow
  EXPECT_THROW(element_count({huge, huge, 0}), InvalidArgument);
  EXPECT_EQ(element_count({huge, 1 << 20}), Index{1} << 60);
}

}  // namespace
}  // namespace saddle
