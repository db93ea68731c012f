// Key sets against the definitions of the specification, written out in another way.
#include "saddle/primal/key_set.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "saddle/primal/head.hpp"
#include "saddle/primal/testing_internal.hpp"

namespace saddle::primal {
namespace {

using namespace testing;

std::set<Index> seen_by(const std::vector<KeySet>& keys, Index head, Index i, Index M) {
  std::set<Index> seen;
  for (Index j = 0; j < M; ++j)
    if (sees(keys, head, i, j)) seen.insert(j);
  return seen;
}

TEST(KeySet, SmallPatternsInFull) {
  EXPECT_EQ(seen_by({Causal{}}, 0, 2, 6), (std::set<Index>{0, 1, 2}));
  EXPECT_EQ(seen_by({Window{1}}, 0, 2, 6), (std::set<Index>{1, 2, 3}));
  EXPECT_EQ(seen_by({Window{0}}, 0, 2, 6), (std::set<Index>{2}));
  EXPECT_EQ(seen_by({Local{2}}, 0, 3, 6), (std::set<Index>{2, 3}));
  EXPECT_EQ(seen_by({Strided{3}}, 0, 7, 9), (std::set<Index>{1, 4, 7}));
  EXPECT_EQ(seen_by({GlobalWindow{1, 2}}, 0, 5, 8), (std::set<Index>{0, 1, 4, 5, 6}));
  EXPECT_EQ(seen_by({GlobalWindow{1, 2}}, 0, 1, 8).size(), 8u);
  EXPECT_EQ(seen_by({Padding{}, Explicit{}}, 0, 1, 4).size(), 4u);
  EXPECT_EQ(seen_by({}, 0, 1, 4).size(), 4u);
}

// "fixed" as in openai/sparse_attention: the offsets stride-1, .., 0 cut into groups of vertsize; group h mod
// num_verts.
bool fixed_by_definition(const Fixed& p, Index head, Index i, Index j) {
  const Index stride = p.ctx / p.blocksize, I = i / p.blocksize, J = j / p.blocksize;
  std::vector<Index> offsets;
  for (Index offset = stride - 1; offset >= 0; --offset) offsets.push_back(offset);
  const Index group = p.num_verts == 1 ? 0 : head % p.num_verts;
  const auto first = offsets.begin() + group * p.vertsize;
  const bool in_group = std::find(first, first + p.vertsize, J % stride) != first + p.vertsize;
  if (J > I || !(in_group || J / stride == I / stride)) return false;
  return I != J || j <= i;
}

RC_GTEST_PROP(KeySet, FixedFollowsItsDefinition, ()) {
  const auto small = [](Index high) { return *rc::gen::inRange<Index>(1, high + 1); };
  const Fixed part = [&] {
    Fixed p;
    p.num_verts = small(3);
    p.vertsize = small(3);
    p.blocksize = small(3);
    p.ctx = (p.num_verts * p.vertsize + small(3) - 1) * p.blocksize;
    return p;
  }();
  for (Index head = 0; head < 4; ++head)
    for (Index i = 0; i < 24; ++i)
      for (Index j = 0; j < 24; ++j) RC_ASSERT(part.sees(head, i, j) == fixed_by_definition(part, head, i, j));
}

RC_GTEST_PROP(KeySet, OthersFollowTheirDefinitions, ()) {
  const auto a = *rc::gen::inRange<Index>(1, 9), g = *rc::gen::inRange<Index>(0, 4),
             i = *rc::gen::inRange<Index>(0, 20), j = *rc::gen::inRange<Index>(0, 20);
  RC_ASSERT(Causal{}.sees(0, i, j) == (i - j >= 0));
  RC_ASSERT(Window{a}.sees(0, i, j) == (std::abs(i - j) <= a));
  RC_ASSERT(Local{a}.sees(0, i, j) == (i - a < j && j <= i));
  RC_ASSERT(Strided{a}.sees(0, i, j) == (j <= i && (i - j) % a == 0));
  RC_ASSERT((GlobalWindow{a, g}.sees(0, i, j)) == (std::abs(i - j) <= a || i < g || j < g));
}

TEST(KeySet, PartsAreAnded) {
  const std::vector<KeySet> both{Causal{}, Window{2}};
  for (Index i = 0; i < 8; ++i)
    for (Index j = 0; j < 8; ++j) EXPECT_EQ(sees(both, 0, i, j), j <= i && i - j <= 2);
}

// A key set that calls itself causal never shows a later key, and the others do somewhere.
TEST(KeySet, CausalOnesNeverLookAhead) {
  const std::vector<KeySet> parts{Causal{}, Window{2}, Local{3}, Strided{3}, Fixed{4, 2, 1, 2}, GlobalWindow{2, 1}};
  for (const KeySet& part : parts) {
    bool ahead = false;
    for (Index head = 0; head < 3; ++head)
      for (Index i = 0; i < 16; ++i)
        for (Index j = i + 1; j < 16; ++j) ahead |= sees({part}, head, i, j);
    EXPECT_EQ(is_causal({part}), !ahead);
  }
  EXPECT_FALSE(is_causal({}));
  EXPECT_TRUE(is_causal({Window{2}, Causal{}}));
}

TEST(KeySet, HugeExtentsDoNotOverflow) {
  const Index huge = std::numeric_limits<Index>::max();
  for (Index i : {0, 5})
    for (Index j : {0, 5}) {
      EXPECT_TRUE(Window{huge}.sees(0, i, j));
      EXPECT_EQ(Local{huge}.sees(0, i, j), j <= i);
      EXPECT_EQ(Strided{huge}.sees(0, i, j), i == j);
    }
}

// In a call: key sets, mask and padding are and-ed; a pooled key is visible if any, or all, of its kept tokens are.
TEST(KeySet, VisibilityOfACall) {
  for (const char* rule : {"any", "all"}) {
    Sample s = sample(std::string("softmax+sh(3,2,visibility=") + rule + ")+window(2)", {2, 2, 6, 8, 2, 2});
    add_key_mask(s);
    add_mask(s);
    const Call call = s.call();
    for (Index b = 0; b < 2; ++b)
      for (Index h = 0; h < 2; ++h) {
        const Head head = prepare_head(call, b, h);
        const Index factor = h == 0 ? 3 : 2;
        ASSERT_EQ(head.visible.shape(), (std::array<Index, 2>{6, (8 + factor - 1) / factor}));
        for (Index i = 0; i < 6; ++i)
          for (Index J = 0; J < head.visible.shape()[1]; ++J) {
            Index kept = 0, visible = 0;
            for (Index t = J * factor; t < std::min<Index>(8, (J + 1) * factor); ++t) {
              if (s.key_mask.at(b * 8 + t) == 0) continue;
              ++kept;
              visible += std::abs(i - t) <= 2 && s.mask.at(((b * 2 + h) * 6 + i) * 8 + t) != 0;
            }
            const bool expected = std::string(rule) == "any" ? visible > 0 : kept > 0 && visible == kept;
            EXPECT_EQ(head.visible(i, J) != 0, expected) << rule;
          }
      }
  }
}

}  // namespace
}  // namespace saddle::primal
