// What the battery and the golden cases do not say about HYLA: buckets, wrong options, what a token may see, and the
// rules of the two tasks.
#include "saddle/mechanisms/hyla/hyla.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"
#include "saddle/mechanisms/hyla/fuzzy_logic.hpp"
#include "saddle/mechanisms/hyla/sraven.hpp"

namespace saddle::mechanisms::hyla {
namespace {

using testing::HasSubstr;

TEST(Hyla, BucketsAreExactThenLogarithmic) {
  // 16 buckets: 8 + trunc(8 log2(n / 8))
  const Index expected[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 15, 15};
  for (Index n = 0; n < 18; ++n) EXPECT_EQ(bucket_of(n, 16), expected[n]) << n;
  for (const Index buckets : {2, 3, 9, 32, 36, 197})
    for (Index n = 0; n < 400; ++n) {
      if (n < buckets / 2) {
        EXPECT_EQ(bucket_of(n, buckets), n);
      }
      EXPECT_LE(bucket_of(n, buckets), bucket_of(n + 1, buckets));
      EXPECT_LT(bucket_of(n, buckets), buckets);
      if (n >= buckets) {
        EXPECT_EQ(bucket_of(n, buckets), buckets - 1);
      }
    }
  EXPECT_EQ(bucket_of(-3, 16), 0);
  for (const Index n : {0, 1, 5}) EXPECT_EQ(bucket_of(n, 1), 0);
}

std::string complaint(const std::string& text, const LayerPlace& place) {
  try {
    find_layer(text)->check(place);
  } catch (const InvalidArgument& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "none";
}

TEST(Hyla, WrongOptions) {
  LayerPlace place;
  place.X = 12;
  place.H = 3;
  EXPECT_EQ(complaint("hyla", place), "none");
  EXPECT_EQ(complaint("hyla(qk_dim=6,v_dim=9)", place), "none");
  EXPECT_THAT(complaint("hyla(qk_dim=8)", place), HasSubstr("queries of width 8 cannot be cut into 3 heads"));
  EXPECT_THAT(complaint("hyla(v_dim=8)", place), HasSubstr("values of width 8"));
  EXPECT_THAT(complaint("hyla(v_dim=-3)", place), HasSubstr("v_dim=-3"));
  EXPECT_THAT(complaint("hyla(rms_eps=0)", place), HasSubstr("positive"));
  EXPECT_THAT(complaint("hyla(relative_bias=true)", place), HasSubstr("give num_buckets"));
  EXPECT_EQ(complaint("hyla(relative_bias=true,num_buckets=4)", place), "none");
  EXPECT_THAT(complaint("hyla(num_buckets=4)", place), HasSubstr("relative_bias=true"));
  EXPECT_THAT(complaint("hyla(attention_norm=rms)", place), HasSubstr("rms"));
  EXPECT_THAT(complaint("hyla(target_network=swiglu)", place), HasSubstr("swiglu"));
  place.N = 5;
  EXPECT_EQ(complaint("hyla(relative_bias=true)", place), "none");
}

// Random inputs for a written form; x [2,6,8].
LayerInputs inputs_for(const std::string& text) {
  const auto layer = find_layer(text);
  const Hyla& part = layer->part<Hyla>();
  LayerInputs inputs;
  inputs.place.X = 8;
  inputs.place.H = 2;
  inputs.place.N = 6;
  Stream stream(3, "hyla");
  const auto drawn = [&](Shape shape) {
    std::vector<double> numbers(static_cast<std::size_t>(element_count(shape)));
    for (double& number : numbers) number = stream.normal();
    return tape::Value(std::move(shape), std::move(numbers));
  };
  inputs.x = drawn({2, 6, 8});
  const Index D = part.key_width(inputs.place), E = part.value_width(inputs.place);
  inputs.weights = {{"query.kernel", drawn({8, 2, D})}, {"key.kernel", drawn({8, 2, D})},
                    {"value.kernel", drawn({8, 2, E})}, {"value.bias", drawn({2, E})},
                    {"out.kernel", drawn({2, E, 8})},   {"out.bias", drawn({8})}};
  if (part.relative_bias) inputs.weights["rel_embedding"] = drawn({2, 6});
  return inputs;
}

TEST(Hyla, CausalTokensDoNotSeeLaterOnes) {
  for (const char* text : {"hyla(causal=true)", "hyla(causal=true,attention_norm=softmax,relative_bias=true)",
                           "hyla(causal=true,attention_norm=none,target_network=default)"}) {
    LayerInputs inputs = inputs_for(text);
    const auto layer = find_layer(text);
    EXPECT_TRUE(layer->causal());
    const tape::Value before = layer->reference(inputs).at("y");
    std::vector<double> changed = inputs.x.data();
    for (Index n = 0; n < 8; ++n) changed[static_cast<std::size_t>(4 * 8 + n)] += 1;  // token 4 of the first sample
    inputs.x = tape::Value({2, 6, 8}, changed);
    const tape::Value after = layer->reference(inputs).at("y");
    for (std::size_t i = 0; i < 4 * 8; ++i) EXPECT_EQ(before.data()[i], after.data()[i]) << text;
    EXPECT_NE(before.data()[5 * 8], after.data()[5 * 8]) << text;
  }
}

// Padding changes nothing for the tokens that exist, and is 0 itself.
TEST(Hyla, PaddingIsNotSeen) {
  LayerInputs inputs = inputs_for("hyla");
  const Hyla part;
  LayerInputs shorter = inputs;
  shorter.x = tape::slice(inputs.x, 1, 0, 4);
  inputs.key_mask = tape::Value({2, 6}, {1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0});
  const tape::Value y = part.reference(inputs).at("y"), expected = part.reference(shorter).at("y");
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t i = 0; i < 6 * 8; ++i) {
      if (i < 4 * 8)
        EXPECT_NEAR(y.data()[b * 48 + i], expected.data()[b * 32 + i], 1e-12);
      else
        EXPECT_EQ(y.data()[b * 48 + i], 0);
    }
}

// The mean square over the heads is 1, whatever the scores are.
TEST(Hyla, CodesHaveUnitLength) {
  const LayerInputs inputs = inputs_for("hyla");
  const tape::Value attn = Hyla{}.reference(inputs).at("attn");
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t pair = 0; pair < 36; ++pair) {
      const double first = attn.data()[(b * 2) * 36 + pair], second = attn.data()[(b * 2 + 1) * 36 + pair];
      EXPECT_NEAR((first * first + second * second) / 2, 1, 1e-4);
    }
}

TEST(Hyla, CostFollowsTheFormula) {
  LayerPlace place;
  place.X = 64;
  place.H = 8;
  place.N = 100;
  const auto adds = [&](const char* text) {
    return find_layer(text)->cost(place, 1, primal::Pass::forward, DType::f32).multiply_adds;
  };
  const double projections = 4.0 * 100 * 64 * 64;
  EXPECT_EQ(adds("hyla"), projections + 100 * 100 * 3 * 64.0);
  EXPECT_EQ(adds("hyla(target_network=default)"), projections + 100 * 100 * 2 * 64.0);
  EXPECT_EQ(adds("hyla(causal=true)"), projections + 5050 * 3 * 64.0);
  EXPECT_EQ(adds("hyla(qk_dim=16,v_dim=32)"), 2.0 * 100 * 64 * 48 + 100 * 100 * (16 + 64.0));
}

TEST(HylaGolden, SaysWhatIsWrong) {
  const auto problem = [](std::map<std::string, std::string> metadata) {
    TensorFile golden;
    golden.metadata = std::move(metadata);
    golden.metadata["mechanism"] = "hyla";
    return check_golden(golden, "case").problem;
  };
  EXPECT_THAT(problem({{"variant", "language"}}), HasSubstr("found 'language'"));
  EXPECT_THAT(problem({{"variant", "attention"}, {"target_network", "swiglu"}}), HasSubstr("swiglu"));
  EXPECT_THAT(problem({{"variant", "attention"}}), HasSubstr("in.x"));
  EXPECT_THAT(problem({{"variant", "sraven"}}), HasSubstr("in.constant"));
  EXPECT_THAT(problem({{"variant", "sraven"}, {"grid_size", "4"}}), HasSubstr("size 3"));
  EXPECT_THAT(problem({{"variant", "fuzzy_logic"}}), HasSubstr("in.latents"));
}

TEST(Sraven, CombinationsAndRules) {
  const auto all = sraven::combinations(4);
  EXPECT_EQ(all.size(), 330U);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 330U);
  for (const auto& rules : all) EXPECT_TRUE(std::is_sorted(rules.begin(), rules.end()));
  EXPECT_THROW(sraven::grid_of(8, {}), InvalidArgument);
  EXPECT_THROW(sraven::grid_of(-1, {}), InvalidArgument);
  sraven::Draws draws;
  draws.first = {1, 0, 6};
  draws.second = {7, 1, 6};
  EXPECT_EQ(sraven::grid_of(4, draws)[1], (std::array<Index, 3>{0, 6, 4}));
  EXPECT_EQ(sraven::grid_of(5, draws)[0], (std::array<Index, 3>{1, 7, 0}));
  EXPECT_EQ(sraven::grid_of(6, draws)[1], (std::array<Index, 3>{0, 1, 7}));
}

TEST(FuzzyLogic, CountsAndValues) {
  const auto of = [](Index variables, Index terms) {
    const auto made = fuzzy_logic::functions(variables, terms);
    return std::pair(made.known.size(), made.other.size());
  };
  EXPECT_EQ(of(4, 2), std::pair(std::size_t{66}, std::size_t{6}));
  EXPECT_EQ(of(3, 2), std::pair(std::size_t{15}, std::size_t{1}));
  EXPECT_EQ(of(5, 3), std::pair(std::size_t{2024}, std::size_t{56}));
  const auto made = fuzzy_logic::functions(2, 1);
  EXPECT_EQ(made.known, (std::vector<fuzzy_logic::Bits>{{0, 0}, {0, 1}, {1, 0}}));
  EXPECT_EQ(made.other, (std::vector<fuzzy_logic::Bits>{{1, 1}}));
  const std::vector<double> x{0.25, 0.5};
  EXPECT_DOUBLE_EQ(fuzzy_logic::value_of({1, 1, 0, 1}, x), 0.5);
  EXPECT_DOUBLE_EQ(fuzzy_logic::value_of({1, 1}, x), 0.25);
  EXPECT_DOUBLE_EQ(fuzzy_logic::product_of({1, 1, 0, 1}, x), 1 - (1 - 0.125) * (1 - 0.375));
}

}  // namespace
}  // namespace saddle::mechanisms::hyla
