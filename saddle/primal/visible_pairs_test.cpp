#include "saddle/primal/visible_pairs.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "saddle/primal/head.hpp"
#include "saddle/primal/testing_internal.hpp"

namespace saddle::primal {
namespace {

using namespace testing;

// Against counting what a call really shows.
TEST(VisiblePairs, AreThoseOfACall) {
  for (const char* text : {"softmax",
                           "softmax+causal",
                           "softmax+window(2)",
                           "softmax+local(3)",
                           "softmax+strided(3)",
                           "softmax+fixed(4,num_verts=2)",
                           "softmax+global_window(1,n_global=2)",
                           "softmax+sh(1,3)",
                           "softmax+sh(2,3)+window(2)",
                           "softmax+sh(2,3)+causal",
                           "softmax+sh(2,4,tail=drop)+window(1)",
                           "softmax+causal+window(3)",
                           "softmax+window(1)+local(3)",
                           "softmax+strided(2)+window(3)",
                           "softmax+fixed(6,vertsize=2,blocksize=2)+local(5)",
                           "softmax+global_window(2,n_global=1)+causal",
                           "softmax+strided(2)+fixed(4)",
                           "softmax+sh(2,3)+strided(2)",
                           "softmax+sh(2,3,visibility=all)+window(4)",
                           "softmax+sh(1,2,pool=2d)+window(2)"})
    for (const Dims& dims : {Dims{1, 2, 9, 9, 2, 2}, Dims{1, 2, 5, 11, 2, 2}, Dims{1, 2, 11, 5, 2, 2}}) {
      const Sample s = sample(text, dims);
      for (Index h = 0; h < 2; ++h) {
        const Head head = prepare_head(s.call(), 0, h);
        double count = 0;
        for (std::uint8_t visible : head.visible) count += visible != 0;
        EXPECT_EQ(visible_pairs(s.attention, dims, h), count) << text;
      }
    }
}

// Bands are exact at any size, other patterns come from a few rows.
TEST(VisiblePairs, OfLargeShapes) {
  const auto pairs = [](const char* text, Index N, Index M) {
    return visible_pairs(parse(text), {1, 1, N, M, 8, 8}, 0);
  };
  const double n = 50000;
  EXPECT_EQ(pairs("softmax", 50000, 50000), n * n);
  EXPECT_EQ(pairs("softmax+causal", 50000, 50000), n * (n + 1) / 2);
  EXPECT_EQ(pairs("softmax+window(100)", 50000, 50000), n * 201 - 100 * 101);
  EXPECT_EQ(pairs("softmax+local(100)", 50000, 50000), n * 100 - 50 * 99);
  for (const char* text :
       {"softmax+strided(7)", "softmax+strided(64)", "softmax+fixed(64)",
        "softmax+fixed(128,num_verts=2,vertsize=4,blocksize=8)", "softmax+global_window(20,n_global=9)",
        "softmax+sh(4)+causal", "softmax+sh(3)+window(30)", "softmax+fixed(64)+local(500)"})
    for (const auto& [N, M] : {std::pair<Index, Index>{1500, 1500}, {1700, 900}, {900, 1700}}) {
      const Attention attention = parse(text);
      Index exact = 0;
      for (Index i = 0; i < N; ++i) {
        if (!attention.pooling) {
          for (Index j = 0; j < M; ++j) exact += sees(attention.keys, 0, i, j);
          continue;
        }
        const bool any = visibility_of(attention, *attention.pooling) == Visibility::any;
        for (const auto& window : pooling_windows(*attention.pooling, attention.pooling->factors[0], M)) {
          const auto seen = [&](Index t) { return sees(attention.keys, 0, i, t); };
          exact +=
              any ? std::any_of(window.begin(), window.end(), seen) : std::all_of(window.begin(), window.end(), seen);
        }
      }
      EXPECT_NEAR(pairs(text, N, M) / static_cast<double>(exact), 1, 0.05) << text << " " << N << " " << M;
    }
}

// Counting must cost nothing beside the call: it would not end here if it went through keys, or through all queries.
TEST(VisiblePairs, NeedFewSteps) {
  const Index n = Index{1} << 38;
  for (const char* text :
       {"softmax+causal", "softmax+window(9)", "softmax+local(9)", "softmax+strided(8)", "softmax+fixed(64)",
        "softmax+global_window(8)", "softmax+sh(4)+causal", "softmax+sh(4)+window(9)", "softmax+strided(8)+fixed(64)",
        "softmax+sh(4)+strided(8)", "softmax+sh(2,pool=2d)+causal"}) {
    const double pairs = visible_pairs(parse(text), {1, 1, n, n, 8, 8}, 0);
    EXPECT_GT(pairs, 0) << text;
    EXPECT_LT(pairs, static_cast<double>(n) * static_cast<double>(n)) << text;
  }
}

}  // namespace
}  // namespace saddle::primal
