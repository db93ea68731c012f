#include "row.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saddle/base/error.hpp"

namespace saddle::bench {
namespace {

using testing::HasSubstr;

Row row(const std::string& attention, Dims dims, Pass pass = Pass::forward) {
  Row r;
  r.attention = attention;
  r.dims = dims;
  r.pass = pass;
  return r;
}

TEST(Row, CountsTwoProductsForwardAndFiveBackward) {
  const Dims d{2, 3, 32, 32, 8, 8};
  EXPECT_DOUBLE_EQ(flops(row("softmax", d)), 4.0 * 2 * 3 * 32 * 32 * 8);
  EXPECT_DOUBLE_EQ(flops(row("softmax", d, Pass::training)), 3.5 * flops(row("softmax", d)));
}

TEST(Row, CountsOnlyThePairsThatAreSeen) {
  const Dims d{1, 1, 32, 32, 8, 8};
  EXPECT_DOUBLE_EQ(flops(row("softmax+causal", d)), 4.0 * (32 * 33 / 2) * 8);
  EXPECT_DOUBLE_EQ(flops(row("softmax+window(1)", d)), 4.0 * (3 * 32 - 2) * 8);
  const Dims pooled{1, 2, 32, 32, 8, 8};
  EXPECT_DOUBLE_EQ(flops(row("softmax+sh(1,4)", pooled)), 4.0 * (32 * 32 + 32 * 8) * 8);
}

TEST(Row, RatesOfThePrimalFormAreEquivalent) {
  EXPECT_TRUE(counts_equivalent(row("linear(elu1)", {1, 1, 512, 512, 16, 16})));
  EXPECT_FALSE(counts_equivalent(row("softmax", {1, 1, 512, 512, 16, 16})));
}

TEST(Row, BytesOfInputsAndOutputs) {
  Row r = row("softmax", {1, 2, 5, 7, 3, 4});
  EXPECT_DOUBLE_EQ(bytes(r), 2 * 4 * (5 * 3 + 7 * 3 + 7 * 4 + 5 * 4));
  r.dtype = DType::bf16;
  EXPECT_DOUBLE_EQ(bytes(r), 2 * 2 * (5 * 3 + 7 * 3 + 7 * 4 + 5 * 4));
}

TEST(Row, ShapesOfFourAndSix) {
  EXPECT_EQ(dims_of({1, 2, 3, 4}, "x"), (Dims{1, 2, 3, 3, 4, 4}));
  EXPECT_EQ(dims_of({1, 2, 3, 4, 5, 6}, "x"), (Dims{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(shape_text({1, 2, 3, 3, 4, 4}), "1,2,3,4");
  EXPECT_EQ(shape_text({1, 2, 3, 4, 5, 6}), "1,2,3,4,5,6");
  EXPECT_THROW(static_cast<void>(dims_of({1, 2, 3}, "x")), InvalidArgument);
  EXPECT_THROW(static_cast<void>(dims_of({1, 0, 3, 4}, "x")), InvalidArgument);
  EXPECT_THROW(static_cast<void>(dims_of({1 << 20, 1 << 20, 1 << 20, 1 << 20}, "x")), InvalidArgument);
}

TEST(Row, RefusesWhatCannotBe) {
  Row r = row("softmax", {1, 2, 8, 9, 4, 4});
  r.layout = Layout::qkv;
  EXPECT_THROW(validate(r), InvalidArgument);
  EXPECT_THROW(validate(row("softmax+explicit", {1, 2, 8, 8, 4, 4})), InvalidArgument);
  EXPECT_THROW(validate(row("softmax+sh(1,2,4)", {1, 2, 8, 8, 4, 4})), InvalidArgument);
}

TEST(Row, WordsAreSuggested) {
  try {
    static_cast<void>(parse_pass("forwrd"));
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.hint(), HasSubstr("'forward'"));
  }
}

}  // namespace
}  // namespace saddle::bench
