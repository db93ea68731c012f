#include "saddle/data/generate/sraven.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

namespace saddle::data {
namespace {

TEST(SravenData, CombinationsAreApart) {
  const SravenCombinations made = sraven_combinations(4);
  EXPECT_EQ(made.known.size(), 248U);
  EXPECT_EQ(made.held_out.size(), 82U);
  std::set<std::vector<int>> all(made.known.begin(), made.known.end());
  all.insert(made.held_out.begin(), made.held_out.end());
  EXPECT_EQ(all.size(), 330U);
  EXPECT_EQ(sraven_combinations(4).held_out, made.held_out);
  EXPECT_NE(sraven_combinations(5).held_out, made.held_out);
}

// Whether the rows of a feature's grid follow the rule.
bool follows(int rule, const std::array<std::array<Index, 3>, 3>& rows) {
  const Index steps[] = {0, 1, 2, 7, 6};
  for (const auto& [a, b, c] : rows) {
    if (rule < 5 && (b != (a + steps[rule]) % 8 || c != (b + steps[rule]) % 8)) return false;
    if (rule == 5 && c != (a + b) % 8) return false;
    if (rule == 6 && c != (a + 8 - b) % 8) return false;
    auto symbols = rows[0], own = std::array{a, b, c};
    std::sort(symbols.begin(), symbols.end());
    std::sort(own.begin(), own.end());
    if (rule == 7 && (own != symbols || own[0] == own[1] || own[1] == own[2])) return false;
  }
  return true;
}

// Some assignment of places in each column to features makes all four rules hold.
TEST(SravenData, PanelsFollowTheirRules) {
  Stream stream(1, "test");
  for (const std::vector<int>& rules : {std::vector{0, 3, 5, 7}, {1, 2, 4, 6}, {7, 7, 7, 7}, {0, 0, 5, 6}}) {
    const auto panels = draw_sraven(stream, rules);
    // Feature by feature, any three places that follow its rule and are not taken.
    std::array<std::set<std::size_t>, 3> taken;
    const std::function<bool(std::size_t)> fits = [&](std::size_t feature) {
      if (feature == rules.size()) return true;
      for (std::size_t p = 0; p < 64; ++p) {
        const std::array<std::size_t, 3> places{p / 16, p / 4 % 4, p % 4};
        std::array<std::array<Index, 3>, 3> rows{};
        bool is_free = true;
        for (std::size_t column = 0; column < 3; ++column) {
          is_free = is_free && !taken[column].contains(places[column]);
          for (std::size_t row = 0; row < 3; ++row) rows[row][column] = panels[row][column][places[column]];
        }
        if (!is_free || !follows(rules[feature], rows)) continue;
        for (std::size_t column = 0; column < 3; ++column) taken[column].insert(places[column]);
        if (fits(feature + 1)) return true;
        for (std::size_t column = 0; column < 3; ++column) taken[column].erase(places[column]);
      }
      return false;
    };
    EXPECT_TRUE(fits(0));
  }
}

TEST(SravenData, TokensAskForOneFeature) {
  const DatasetPtr data = generated("sraven(train=200,test=5)").train();
  EXPECT_EQ(data->description().vocabulary, 11);
  std::vector<int> asked_at(4), labels(8);
  for (Index i = 0; i < data->size(); ++i) {
    Sample sample;
    data->read(i, sample);
    ASSERT_EQ(sample.tokens.size(), 36U);
    for (std::size_t n = 0; n < 32; ++n) EXPECT_TRUE(sample.tokens[n] >= 1 && sample.tokens[n] <= 8);
    EXPECT_EQ(std::count(sample.tokens.begin() + 32, sample.tokens.end(), 9), 3);
    const auto place = std::find(sample.tokens.begin() + 32, sample.tokens.end(), 10);
    ASSERT_NE(place, sample.tokens.end());
    ++asked_at[static_cast<std::size_t>(place - sample.tokens.begin() - 32)];
    ++labels[static_cast<std::size_t>(sample.label)];
  }
  for (const int count : asked_at) EXPECT_NEAR(count, 50, 5 * std::sqrt(37.5));
  for (const int count : labels) EXPECT_NEAR(count, 25, 5 * std::sqrt(21.9));
}

TEST(SravenData, HeldOutCombinationsAreTested) {
  const auto checksum = [](const char* text) { return generated(text).test()->description().checksum; };
  EXPECT_NE(checksum("sraven(test=50)"), checksum("sraven(test=50,ood=1)"));
  EXPECT_EQ(generated("sraven(train=50,ood=1)").train()->description().checksum,
            generated("sraven(train=50)").train()->description().checksum);
}

}  // namespace
}  // namespace saddle::data
