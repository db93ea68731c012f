#include "saddle/kernels/tiled/visibility.hpp"

#include <gtest/gtest.h>

#include "saddle/base/random.hpp"
#include "saddle/primal/head.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::kernels {
namespace {

struct Case {
  std::string attention;
  Index N, M;
  bool padding = false, mask = false;
};

// What head.cpp finds pair by pair is what tiles must say.
void compare(const Case& c) {
  SCOPED_TRACE(c.attention + " " + std::to_string(c.N) + " " + std::to_string(c.M));
  const Index B = 2, H = 3;
  Stream stream(3, "visibility");
  const Tensor q(DType::f32, {B, H, c.N, 2}), k(DType::f32, {B, H, c.M, 2});
  Tensor key_mask(DType::u8, {B, c.M}), mask(DType::boolean, {B, H, c.N, c.M});
  for (Tensor* bits : {&key_mask, &mask})
    for (Index i = 0; i < bits->size(); ++i) bits->set(i, stream.uniform() < 0.8 ? 1 : 0);
  primal::Call call;
  call.attention = primal::parse(c.attention);
  call.q = q.view();
  call.k = call.v = k.view();
  if (c.padding) call.key_mask = key_mask.view();
  if (c.mask) call.mask = mask.view();
  primal::validate(call);
  for (Index b = 0; b < B; ++b)
    for (Index h = 0; h < H; ++h) {
      const primal::Head head = primal::prepare_head(call, b, h);
      const Index K = head.tokens.k.shape()[0];
      const Visibility visibility(call, b, h, K, head.keep, head.windows);
      const auto sees = [&](Index i, Index j) { return head.visible(i, j) != 0; };
      for (std::uint8_t seen : head.visible) ASSERT_TRUE(seen == 1 || !visibility.everything());
      EXPECT_TRUE(visibility.everything() || c.attention != "softmax" || c.padding || c.mask);
      for (Index i0 = 0; i0 < c.N; i0 += 17) {
        const Index i1 = std::min(c.N, i0 + 64);
        std::vector<std::uint64_t> bits(K);
        visibility.columns(i0, 0, K, bits.data());
        const auto [first, last] = visibility.key_range(i0, i1);
        for (Index j = 0; j < K; ++j)
          for (Index i = i0; i < i0 + 64; ++i) {
            const bool expected = i < c.N && sees(i, j);
            ASSERT_EQ((bits[j] >> (i - i0) & 1) != 0, expected) << b << " " << h << " " << i << " " << j;
            ASSERT_TRUE(!expected || (j >= first && j < last)) << i << " " << j;
          }
        for (Index j0 = 0; j0 < K; j0 += 5) {
          const Index j1 = std::min(K, j0 + 11);
          Index count = 0;
          for (Index i = i0; i < i1; ++i)
            for (Index j = j0; j < j1; ++j) count += sees(i, j);
          const Cover cover = visibility.cover(i0, i1, j0, j1);
          ASSERT_TRUE(cover != Cover::none || count == 0) << i0 << " " << j0;
          ASSERT_TRUE(cover != Cover::all || count == (i1 - i0) * (j1 - j0)) << i0 << " " << j0;
        }
      }
    }
}

TEST(Visibility, AgreesWithTheReferencePairByPair) {
  for (const char* attention :
       {"softmax", "softmax+causal", "softmax+window(5)", "softmax+window(0)", "softmax+local(7)", "softmax+strided(4)",
        "softmax+fixed(8,num_verts=2,vertsize=1,blocksize=2)", "softmax+fixed(16)",
        "softmax+global_window(3,n_global=2)", "softmax+window(9)+causal", "softmax+strided(3)+local(20)",
        "softmax+sh(1,2,4)", "softmax+sh(1,2,4)+causal", "softmax+sh(3,2,5)+window(6)",
        "softmax+sh(2,2,2,pool=2d)+causal", "softmax+sh(1,2,3,visibility=any,leak=allow)+causal"})
    for (const auto& [N, M] : {std::pair<Index, Index>{1, 1}, {7, 12}, {64, 64}, {130, 100}})
      for (bool padding : {false, true})
        for (bool mask : {false, true}) compare({attention, N, M, padding, mask});
}

// Sets that see little say so before anything is looked at pair by pair.
TEST(Visibility, RulesOutWhatIsFarAway) {
  const Tensor q(DType::f32, {1, 1, 1024, 2});
  primal::Call call;
  call.q = call.k = call.v = q.view();
  const primal::Windows unpooled;  // a Visibility refers to it
  const auto of = [&](const char* attention) {
    call.attention = primal::parse(attention);
    return Visibility(call, 0, 0, 1024, {}, unpooled);
  };
  EXPECT_EQ(of("softmax+causal").key_range(0, 64), std::pair(Index{0}, Index{64}));
  EXPECT_EQ(of("softmax+window(10)").key_range(512, 576), std::pair(Index{502}, Index{586}));
  EXPECT_EQ(of("softmax+causal").cover(512, 576, 0, 96), Cover::all);
  EXPECT_EQ(of("softmax+global_window(8,n_global=4)").cover(512, 576, 96, 192), Cover::none);
  std::vector<std::uint8_t> kept(1024, 0);
  for (Index j = 0; j < 300; ++j) kept[j] = 1;
  call.attention = primal::parse("softmax");
  EXPECT_EQ(Visibility(call, 0, 0, 1024, kept, unpooled).key_range(0, 64), std::pair(Index{0}, Index{300}));
}

}  // namespace
}  // namespace saddle::kernels
