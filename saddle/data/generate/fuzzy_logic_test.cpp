#include "saddle/data/generate/fuzzy_logic.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "saddle/base/error.hpp"

namespace saddle::data {
namespace {

TEST(FuzzyLogicData, FunctionsAreApart) {
  const FuzzyFunctions made = fuzzy_functions(4, 2, 0.7, 1);
  EXPECT_EQ(made.test.size(), 46U);  // int(0.7 * 66)
  EXPECT_EQ(made.train.size(), 20U);
  EXPECT_EQ(made.other.size(), 6U);
  for (const auto& function : made.train) EXPECT_EQ(std::count(made.test.begin(), made.test.end(), function), 0);
  EXPECT_NE(fuzzy_functions(4, 2, 0.7, 2).train, made.train);
}

TEST(FuzzyLogicData, SequencesHideTheirLastValue) {
  Stream stream(1, "test");
  const FuzzySequence sequence = draw_fuzzy_sequence(stream, {1, 0, 0, 1}, 2, 5);
  ASSERT_EQ(sequence.rows.size(), 15U);
  for (std::size_t i = 0; i < 5; ++i) {
    const float x = sequence.rows[3 * i], z = sequence.rows[3 * i + 1];
    const float y = std::max(std::min(x, 1 - z), std::min(1 - x, z));
    EXPECT_NEAR(i < 4 ? sequence.rows[3 * i + 2] : static_cast<float>(sequence.target), y, 1e-6);
  }
  EXPECT_EQ(sequence.rows.back(), 0);
}

TEST(FuzzyLogicData, LevelsAreClasses) {
  const DatasetPtr data = generated("fuzzy_logic(train=300,levels=12,length=9)").train();
  EXPECT_EQ(data->description().classes.size(), 12U);
  EXPECT_EQ(data->description().classes[3], "03");
  EXPECT_EQ(data->description().channels, 5);
  EXPECT_EQ(data->description().max_length, 9);
  std::vector<Index> labels;
  for (Index i = 0; i < data->size(); ++i) labels.push_back(data->label(i));
  EXPECT_LE(*std::max_element(labels.begin(), labels.end()), 11);
  EXPECT_GE(*std::max_element(labels.begin(), labels.end()), 8);
}

TEST(FuzzyLogicData, WhatLeavesNothing) {
  EXPECT_THROW(generated("fuzzy_logic(held_out=1)"), InvalidArgument);
  EXPECT_THROW(generated("fuzzy_logic(held_out=0)"), InvalidArgument);
  EXPECT_TRUE(generated("fuzzy_logic(held_out=0,ood=1)").test);
  EXPECT_THROW(generated("fuzzy_logic(variables=2,terms=2,ood=1)"), InvalidArgument);
  EXPECT_THROW(generated("fuzzy_logic(levels=1)"), InvalidArgument);
}

}  // namespace
}  // namespace saddle::data
