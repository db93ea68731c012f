#include "saddle/data/generate/listops.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "saddle/base/error.hpp"

namespace saddle::data {
namespace {

using testing::HasSubstr;

int value(const std::string& text) { return listops_value(parse_listops(text)); }

TEST(Listops, Values) {
  EXPECT_EQ(value("[MAX 2 9 [MIN 4 7 ] 0 ]"), 9);
  EXPECT_EQ(value("[MED 3 1 2 ]"), 2);
  EXPECT_EQ(value("[MED 1 4 ]"), 2);
  EXPECT_EQ(value("[SM 7 8 9 ]"), 4);
  EXPECT_EQ(value("[MIN 4 7 3 ]"), 3);
  EXPECT_EQ(value("[SM [MED 9 9 0 0 ] [MAX 1 0 ] ]"), 5);
  EXPECT_EQ(value("7"), 7);
}

TEST(Listops, TextForm) {
  const Expression expression = parse_listops("[MAX 2 9 [MIN 4 7 ] ]");
  EXPECT_EQ(expression, (Expression{12, 3, 10, 11, 5, 8, 15, 15}));
  EXPECT_EQ(listops_text(expression), "( ( ( ( [MAX 2 ) 9 ) ( ( ( [MIN 4 ) 7 ) ] ) ) ] )");
  EXPECT_EQ(parse_listops(listops_text(expression)), expression);
  EXPECT_EQ(listops_text(parse_listops("3")), "3");
}

TEST(Listops, TextComesBack) {
  Stream stream(7, "test");
  for (int i = 0; i < 200; ++i)
    if (const auto expression = draw_listops(stream, {})) {
      EXPECT_EQ(parse_listops(listops_text(*expression)), *expression);
    }
}

TEST(Listops, WhatIsNoExpression) {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "empty"},          {"[MAX 1", "1 brackets are open"}, {"1 ]", "more follow"},
      {"]", "not open"},      {"[MAX ]", "no argument"},         {"[MOX 1 ]", "'[MOX' is no token"},
      {"1 2", "more follow"}, {"[MAX 1 ] 2", "more follow"}};
  for (const auto& [text, message] : wrong) {
    try {
      parse_listops(text);
      ADD_FAILURE() << text;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
  EXPECT_THROW(listops_value(Expression{0}), InvalidArgument);
  EXPECT_THROW(listops_value(Expression{16}), InvalidArgument);
}

// Depth of the deepest token; the root has 1.
int depth_of(const Expression& expression) {
  int depth = 1, deepest = 1;
  for (const auto token : expression) {
    if (token >= 11 && token < 15) ++depth;
    if (token == 15) --depth;
    deepest = std::max(deepest, depth);
  }
  return deepest;
}

// The statistics of 30000 expressions that were made by another program, each within five standard deviations.
TEST(Listops, Statistics) {
  constexpr int wanted = 8000;
  const ListopsRules rules;
  Stream stream(11, "test");
  int trees = 0, too_long = 0;
  std::vector<Expression> accepted;
  while (accepted.size() < wanted) {
    ++trees;
    auto tree = draw_listops(stream, rules);
    if (!tree)
      ++too_long;
    else if (static_cast<Index>(tree->size()) > rules.min)
      accepted.push_back(*std::move(tree));
  }
  // The reference is itself a sample: of n0 trees or expressions.
  const auto near = [](double found, double n, double expected, double n0, const std::string& what) {
    EXPECT_NEAR(found / n, expected, 5 * std::sqrt(expected * (1 - expected) * (1 / n + 1 / n0)) + 0.0005) << what;
  };
  constexpr double reference = 30000;
  near(wanted, trees, 0.0826, reference / 0.0826, "accepted");
  near(too_long, trees, 0.0113, reference / 0.0826, "too long");

  std::vector<double> lengths, tokens(16), labels(10), roots(4);
  std::vector<std::vector<double>> by_root(4, std::vector<double>(10));
  double total = 0;
  for (const Expression& expression : accepted) {
    lengths.push_back(static_cast<double>(expression.size()));
    total += lengths.back();
    for (const auto token : expression) ++tokens[token];
    const auto label = static_cast<std::size_t>(listops_value(expression));
    const auto root = static_cast<std::size_t>(expression.front() - 11);
    ++labels[label];
    ++roots.at(root);
    ++by_root[root][label];
    ASSERT_EQ(depth_of(expression), 10);
  }
  std::sort(lengths.begin(), lengths.end());
  EXPECT_NEAR(total / wanted, 1033, 5 * 395 * std::sqrt(1.0 / wanted + 1 / reference));
  EXPECT_GE(lengths.front(), 501);
  EXPECT_LE(lengths.back(), 1999);
  const std::pair<double, double> quantiles[] = {{0.05, 538}, {0.25, 702}, {0.5, 950}, {0.75, 1305}, {0.95, 1795}};
  for (const auto& [share, length] : quantiles) {
    const auto below = std::lower_bound(lengths.begin(), lengths.end(), length) - lengths.begin();
    near(static_cast<double>(below), wanted, share, reference, "quantile");
  }
  for (std::size_t digit = 1; digit <= 10; ++digit) EXPECT_NEAR(tokens[digit] / total, 0.0715, 0.0005);
  for (std::size_t op = 11; op <= 14; ++op) EXPECT_NEAR(tokens[op] / total, 0.0356, 0.0004);
  EXPECT_NEAR(tokens[15] / total, 0.142, 0.001);

  const double label_shares[] = {0.173, 0.092, 0.075, 0.082, 0.088, 0.086, 0.079, 0.072, 0.086, 0.168};
  for (std::size_t i = 0; i < 10; ++i) near(labels[i], wanted, label_shares[i], reference, "label");
  const double given_root[4][10] = {{.569, .220, .096, .054, .029, .016, .008, .003, .002, .001},
                                    {.002, .002, .004, .010, .015, .032, .060, .102, .208, .564},
                                    {.012, .041, .100, .168, .212, .200, .150, .076, .033, .008},
                                    {.103, .104, .099, .095, .099, .097, .099, .105, .100, .097}};
  double from_root = 0;
  for (std::size_t r = 0; r < 4; ++r) {
    near(roots[r], wanted, 0.25, reference, "root");
    for (std::size_t i = 0; i < 10; ++i)
      near(by_root[r][i], roots[r], given_root[r][i], reference / 4, "root " + std::to_string(r));
    from_root += *std::max_element(by_root[r].begin(), by_root[r].end());
  }
  near(from_root, wanted, 0.364, reference, "from the root alone");
}

TEST(Listops, RulesHold) {
  Stream stream(2, "test");
  const ListopsRules rules{4, 40, 4, 3};
  int accepted = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto tree = draw_listops(stream, rules);
    if (!tree) continue;
    ++accepted;
    EXPECT_LT(tree->size(), 40U);
    EXPECT_LE(depth_of(*tree), 4);
    int arguments = 0;
    if (tree->front() >= 11) {
      int open = 0;
      for (const auto token : *tree) {
        if (open == 1 && token != 15) ++arguments;
        if (token >= 11 && token < 15) ++open;
        if (token == 15) --open;
      }
      EXPECT_GE(arguments, 2);
      EXPECT_LE(arguments, 3);
    }
  }
  EXPECT_GT(accepted, 1000);
}

// No expression stands in two splits, nor twice in one.
TEST(Listops, AllDifferent) {
  const Task task = generated("listops(min=3,max=9,train=300,validation=100,test=100,seed=5)");
  std::set<std::vector<std::int32_t>> seen;
  for (const auto& open : {task.test, task.validation, task.train}) {
    const DatasetPtr data = open();
    for (Index i = 0; i < data->size(); ++i) {
      Sample sample;
      data->read(i, sample);
      EXPECT_TRUE(seen.insert(sample.tokens).second);
      EXPECT_GT(sample.length, 3);
      EXPECT_LT(sample.length, 9);
      EXPECT_EQ(listops_value(Expression(sample.tokens.begin(), sample.tokens.end())), sample.label);
    }
  }
  EXPECT_EQ(seen.size(), 500U);
}

TEST(Listops, TooFewThereAre) {
  const Task task = generated("listops(min=0,max=2,train=9,validation=1,test=1)");  // there are ten digits
  EXPECT_THROW(task.train(), InvalidArgument);
  EXPECT_NO_THROW(generated("listops(min=0,max=2,train=9,validation=0,test=1)").train());
}

}  // namespace
}  // namespace saddle::data
