#include "saddle/mechanisms/time_attention/time_attention.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saddle/base/error.hpp"

namespace saddle::mechanisms::time_attention {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    parse_time_encoder(text);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TimeEncoder, IsReadAndWritten) {
  for (const std::string text : {"mercer", "mercer(degree=3)", "mercer(variant=paper)", "bochner",
                                 "bochner(variant=invcdf-mlp)", "bochner(variant=log-normal)", "positions"})
    EXPECT_EQ(to_text(parse_time_encoder(text)), text);
  EXPECT_EQ(to_text(parse_time_encoder("time_mercer(3)")), "mercer(degree=3)");
  EXPECT_EQ(
      refusal("fourier"),
      "time encoding 'fourier', position 1: unknown time encoding 'fourier', known are mercer, bochner, positions");
  EXPECT_THAT(refusal("mercr"), HasSubstr("did you mean 'mercer'?"));
  EXPECT_EQ(refusal(""), "time encoding '', position 1: expected one of mercer, bochner, positions");
  EXPECT_EQ(refusal(" (3)"), "time encoding ' (3)', position 2: expected one of mercer, bochner, positions");
  EXPECT_THAT(refusal("mercer(degre=3)"), HasSubstr("time encoding 'mercer(degre=3)', position 8: mercer: unknown"));
  EXPECT_THAT(refusal("bochner(variant=none)"), HasSubstr("nonparametric, normal, invcdf-mlp"));
  EXPECT_THAT(refusal("mercer+bochner"), HasSubstr("one term"));
  EXPECT_THAT(refusal("positions(3)"), HasSubstr("too many"));
}

TEST(TimeEncoder, SaysWhatWidthsFit) {
  EXPECT_NO_THROW(check(parse_time_encoder("mercer"), 7));
  EXPECT_THROW(check(parse_time_encoder("bochner"), 7), InvalidArgument);
  EXPECT_THROW(check(parse_time_encoder("positions"), 0), InvalidArgument);
  EXPECT_EQ(cost(parse_time_encoder("positions"), 10, 4), 0);
  EXPECT_GT(cost(parse_time_encoder("mercer(degree=10)"), 10, 4), cost(parse_time_encoder("mercer"), 10, 4));
}

// Row 0 counts as zero whatever stands there, and learns nothing.
TEST(TimeAttention, PaddingHasNoEmbedding) {
  const tape::Value table({3, 2}, {9, 9, 1, 2, 3, 4});
  const tape::Value rows = embedded(table, tape::Value({1, 3}, {2, 0, 1}));
  EXPECT_THAT(rows.data(), ::testing::ElementsAre(3, 4, 0, 0, 1, 2));
  tape::backward({{rows, {1, 1, 1, 1, 1, 1}}});
  EXPECT_THAT(table.gradient(), ::testing::ElementsAre(0, 0, 1, 1, 1, 1));
  EXPECT_THROW(embedded(table, tape::Value({1}, {3.0})), InvalidArgument);
}

}  // namespace
}  // namespace saddle::mechanisms::time_attention
