#include "saddle/eval/features.hpp"

#include <gtest/gtest.h>

#include "saddle/eval/samples_test.hpp"

namespace saddle::eval {
namespace {

using data::Kind;

TEST(Features, SeriesArePaddedAndCut) {
  const MemoryData data({.kind = Kind::series, .channels = 2, .classes = {"a", "b"}},
                        {series_sample({1, 10, 2, 20}, 2, 0), series_sample({3, 30, 4, 40, 5, 50, 6, 60}, 2, 1)});
  const Features x = series_of(data, {}, 3);
  Features expected(2, 6);
  expected << 1, 2, 0, 10, 20, 0, 3, 4, 5, 30, 40, 50;
  EXPECT_EQ(x, expected);
  EXPECT_EQ(labels_of(data), (std::vector<Index>{0, 1}));
}

TEST(Features, SeriesAreScaledBeforeTheyArePadded) {
  const MemoryData data({.kind = Kind::series, .channels = 1}, {series_sample({4, 6}, 1, 0)});
  const Features x = series_of(data, {{5}, {2}, 0, false}, 3);
  EXPECT_FLOAT_EQ(x(0, 0), -0.5F);
  EXPECT_FLOAT_EQ(x(0, 1), 0.5F);
  EXPECT_EQ(x(0, 2), 0);
}

TEST(Features, PixelsOfImagesAndOfTokens) {
  const MemoryData image({.kind = Kind::image, .channels = 2, .rows = 1, .columns = 2},
                         {series_sample({0, 0.25, 0.5, 1}, 1, 0)});
  Features expected(1, 4);
  expected << 0, 0.25, 0.5, 1;
  EXPECT_EQ(pixels_of(image), expected);
  data::Sample sample = series_sample({0, 0.25, 0.5, 1}, 1, 0);
  sample.tokens = {2, 1};
  const MemoryData both({.kind = Kind::image_text, .channels = 2, .rows = 1, .columns = 2, .vocabulary = 3}, {sample});
  EXPECT_EQ(pixels_of(both), expected);
  Features words(1, 3);
  words << 0, 0.5, 0.5;
  EXPECT_EQ(histograms_of(both, 100), words);
  const MemoryData tokens({.kind = Kind::tokens, .rows = 1, .columns = 3, .vocabulary = 256},
                          {token_sample({0, 51, 255}, 0)});
  Features grey(1, 3);
  grey << 0, 0.2F, 1;
  EXPECT_EQ(pixels_of(tokens), grey);
}

TEST(Features, HistogramsLeaveOutPaddingAndWhatIsCut) {
  const MemoryData data({.kind = Kind::tokens, .vocabulary = 4},
                        {token_sample({1, 2, 0, 2, 2, 3, 3, 3}, 0), token_sample({0, 0}, 0), token_sample({}, 0)});
  Features expected = Features::Zero(3, 4);
  expected.row(0) << 0, 0.25, 0.75, 0;
  EXPECT_EQ(histograms_of(data, 5), expected);
}

TEST(Features, HistogramsOfBothDocuments) {
  data::Sample sample = token_sample({1, 1}, 0);
  sample.second = {2, 1, 2, 2};
  const MemoryData data({.kind = Kind::pair, .vocabulary = 3}, {sample});
  Features expected(1, 6);
  expected << 0, 1, 0, 0, 0.25, 0.75;
  EXPECT_EQ(histograms_of(data, 100), expected);
}

TEST(Features, StandardIsThatOfTheRowsItSaw) {
  Features x(2, 3);
  x << 1, 0.1F, 5, 3, 0.1F, 9;
  const Standard standard(x);
  Features other(1, 3);
  other << 4, 7, 7;
  standard.apply(x);
  standard.apply(other);
  Features expected(2, 3), expected_other(1, 3);
  expected << -1, 0, -1, 1, 0, 1;
  expected_other << 2, 0, 0;
  EXPECT_EQ(x, expected);
  EXPECT_EQ(other, expected_other);
}

}  // namespace
}  // namespace saddle::eval
