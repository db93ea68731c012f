#include "saddle/base/tensor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

namespace saddle {
namespace {

using ::testing::HasSubstr;

constexpr DType all_dtypes[] = {DType::f64, DType::f32, DType::bf16, DType::i64, DType::i32, DType::u8, DType::boolean};

TEST(Tensor, IsDenseAndZero) {
  for (DType dtype : all_dtypes) {
    const Tensor tensor(dtype, {2, 3});
    EXPECT_EQ(tensor.size(), 6);
    EXPECT_EQ(tensor.bytes().size(), 6 * size_of(dtype));
    EXPECT_EQ(tensor.view().stride, (Shape{3, 1}));
    EXPECT_EQ(tensor.view().dtype, dtype);
    for (Index i = 0; i < 6; ++i) EXPECT_EQ(tensor.at(i), 0) << to_string(dtype);
  }
}

TEST(Tensor, SmallWholeNumbersFitEveryType) {
  for (DType dtype : all_dtypes) {
    Tensor tensor(dtype, {3});
    const double values[] = {1, 0, dtype == DType::boolean ? 1.0 : 100.0};
    for (Index i = 0; i < 3; ++i) tensor.set(i, values[i]);
    for (Index i = 0; i < 3; ++i) EXPECT_EQ(tensor.at(i), values[i]) << to_string(dtype);
  }
}

TEST(Tensor, StoresRoundToTheType) {
  Tensor f32(DType::f32, {1}), bf16(DType::bf16, {1}), i32(DType::i32, {1}), boolean(DType::boolean, {1});
  f32.set(0, 0.1);
  EXPECT_EQ(f32.at(0), static_cast<double>(0.1f));
  bf16.set(0, 1 + 0x1p-8 + 0x1p-40);  // just above a tie: once rounded it goes up, twice it would go down
  EXPECT_EQ(bf16.at(0), 1 + 0x1p-7);
  i32.set(0, -7.9);
  EXPECT_EQ(i32.at(0), -7);
  boolean.set(0, -0.5);
  EXPECT_EQ(boolean.at(0), 1);
}

TEST(Tensor, SpecialValuesSurvive) {
  for (DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    Tensor tensor(dtype, {3});
    tensor.set(0, std::numeric_limits<double>::quiet_NaN());
    tensor.set(1, -std::numeric_limits<double>::infinity());
    tensor.set(2, -0.0);
    EXPECT_TRUE(std::isnan(tensor.at(0)));
    EXPECT_EQ(tensor.at(1), -std::numeric_limits<double>::infinity());
    EXPECT_TRUE(std::signbit(tensor.at(2)));
  }
}

TEST(Tensor, CopiesOwnTheirMemory) {
  Tensor a(DType::f64, {2});
  a.set(0, 1);
  Tensor b = a;
  b.set(0, 2);
  EXPECT_EQ(a.at(0), 1);
  EXPECT_NE(a, b);
  b.set(0, 1);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, Tensor(DType::f64, {2, 1}));
}

// A view tells "absent" from "there, but without elements".
TEST(Tensor, ViewOfAnEmptyTensorIsPresent) {
  EXPECT_TRUE(static_cast<bool>(Tensor(DType::f32, {3, 0}).view()));
  EXPECT_FALSE(static_cast<bool>(TensorView{}));
}

TEST(Tensor, RefusesImpossibleShapes) {
  EXPECT_THROW(Tensor(DType::f32, {2, -1}), InvalidArgument);
  EXPECT_THROW(Tensor(DType::f32, {Index{1} << 40, Index{1} << 40}), InvalidArgument);
}

Array<double, 2> counting(Index rows, Index columns) {
  Array<double, 2> array({rows, columns});
  for (Index i = 0; i < array.size(); ++i) array.data()[i] = static_cast<double>(i + 1);
  return array;
}

TEST(Conversion, RoundTripsThroughEveryFloatingType) {
  const auto values = counting(3, 4);
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::i64, DType::i32, DType::u8})
    EXPECT_EQ(to_double<2>(to_tensor(values, dtype).view()), values) << to_string(dtype);
}

TEST(Conversion, ReadsTransposedReversedAndBroadcastViews) {
  const Tensor tensor = to_tensor(counting(2, 3), DType::f32);
  TensorView view = tensor.view();
  view.shape = {3, 2};
  view.stride = {1, 3};
  const auto transposed = to_double<2>(view);
  view.data = static_cast<float*>(tensor.view().data) + 5;
  view.shape = {2, 3};
  view.stride = {-3, -1};
  const auto reversed = to_double<2>(view);
  view.data = tensor.view().data;
  view.shape = {2, 2, 3};
  view.stride = {0, 3, 1};
  const auto repeated = to_double<3>(view);
  for (Index i = 0; i < 2; ++i)
    for (Index j = 0; j < 3; ++j) {
      const double value = static_cast<double>(i * 3 + j + 1);
      EXPECT_EQ(transposed(j, i), value);
      EXPECT_EQ(reversed(i, j), 7 - value);
      EXPECT_EQ(repeated(0, i, j), value);
      EXPECT_EQ(repeated(1, i, j), value);
    }
}

TEST(Conversion, WritesThroughStrides) {
  Tensor tensor(DType::f64, {6});
  TensorView view = tensor.view();
  view.data = static_cast<double*>(view.data) + 1;
  view.shape = {2, 2};
  view.stride = {1, 3};  // columns apart by three, the rest untouched
  from_double(counting(2, 2), view);
  const double expected[] = {0, 1, 3, 0, 2, 4};
  for (Index i = 0; i < 6; ++i) EXPECT_EQ(tensor.at(i), expected[i]);
}

TEST(Conversion, EmptyTensorsCopyNothing) {
  EXPECT_EQ((to_double<2>(Tensor(DType::f32, {0, 3}).view()).size()), 0);
  EXPECT_EQ((to_double<2>(Tensor(DType::f32, {3, 0}).view()).shape()), (std::array<Index, 2>{3, 0}));
}

TEST(Conversion, RefusesWrongRanksAndShapes) {
  const Tensor tensor(DType::f64, {2, 3});
  try {
    to_double<3>(tensor.view());
    FAIL() << "a matrix was read as a cube";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("3 dimensions"));
    EXPECT_THAT(error.what(), HasSubstr("(2,3)"));
  }
  try {
    from_double(counting(3, 2), tensor.view());
    FAIL() << "shapes differ";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("(3,2)"));
    EXPECT_THAT(error.what(), HasSubstr("(2,3)"));
  }
}

RC_GTEST_PROP(Conversion, ArbitraryStridesReadWhatTheyAddress, ()) {
  const auto extent = [] { return *rc::gen::inRange<Index>(1, 5); };
  const auto step = [] { return *rc::gen::inRange<Index>(-6, 7); };
  const Shape shape{extent(), extent(), extent()}, stride{step(), step(), step()};
  const Index size = 200, centre = 100;  // at most 3 * 4 * 6 away from the centre
  Tensor memory(DType::i32, {size});
  for (Index i = 0; i < size; ++i) memory.set(i, static_cast<double>(i));
  const TensorView view{static_cast<std::int32_t*>(memory.view().data) + centre, DType::i32, shape, stride};
  const auto values = to_double<3>(view);
  for (Index a = 0; a < shape[0]; ++a)
    for (Index b = 0; b < shape[1]; ++b)
      for (Index c = 0; c < shape[2]; ++c)
        RC_ASSERT(values(a, b, c) == static_cast<double>(centre + a * stride[0] + b * stride[1] + c * stride[2]));
}

TEST(Errors, DataErrorNamesThePlace) {
  const DataError whole("a.csv", 0, 0, "is empty"), line("a.csv", 3, 0, "too short"), cell("a.csv", 3, 7, "no number");
  EXPECT_STREQ(whole.what(), "a.csv: is empty");
  EXPECT_STREQ(line.what(), "a.csv:3: too short");
  EXPECT_STREQ(cell.what(), "a.csv:3:7: no number");
  EXPECT_EQ(cell.column(), 7);
}

TEST(Errors, NotSupportedCarriesEveryRefusal) {
  const NotSupported error("nothing fits", {"too wide", "too long"}, "use less");
  EXPECT_EQ(error.refusals(), (std::vector<std::string>{"too wide", "too long"}));
  EXPECT_EQ(error.hint(), "use less");
  EXPECT_NE(dynamic_cast<const Error*>(&error), nullptr);
}

}  // namespace
}  // namespace saddle
