#include "saddle/base/denormals.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "saddle/base/parallel.hpp"

namespace saddle {
namespace {

float half_of_smallest() {
  volatile float smallest = std::numeric_limits<float>::min();
  return smallest / 2;
}

#if defined(__SSE__)

TEST(FlushDenormals, LastsAsLongAsItLives) {
  EXPECT_GT(half_of_smallest(), 0);
  {
    const FlushDenormals outer;
    EXPECT_EQ(half_of_smallest(), 0);
    { const FlushDenormals inner; }
    EXPECT_EQ(half_of_smallest(), 0);
  }
  EXPECT_GT(half_of_smallest(), 0);
}

TEST(FlushDenormals, ReachesEveryThreadOfALoopAndNoLaterOne) {
  std::vector<float> halves(16);
  const auto fill = [&] {
    parallel_for(16, 1,
                 [&](Index begin, Index end) {
                   for (Index i = begin; i < end; ++i) halves[static_cast<std::size_t>(i)] = half_of_smallest();
                 },
                 {.threads = 4});
  };
  {
    const FlushDenormals flush;
    fill();
    for (const float half : halves) EXPECT_EQ(half, 0);
  }
  fill();
  for (const float half : halves) EXPECT_GT(half, 0);
}

#endif

}  // namespace
}  // namespace saddle
