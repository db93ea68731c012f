#include "saddle/data/generate/generate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <set>

#include "saddle/base/error.hpp"
#include "saddle/data/generate/multiscale.hpp"
#include "saddle/data/generate/poker.hpp"

namespace saddle::data {
namespace {

using testing::HasSubstr;

std::string message_of(const std::string& text) {
  try {
    generated(text);
  } catch (const InvalidArgument& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "no error";
}

std::vector<Sample> samples(const Dataset& data) {
  std::vector<Sample> all(static_cast<std::size_t>(data.size()));
  for (Index i = 0; i < data.size(); ++i) data.read(i, all[static_cast<std::size_t>(i)]);
  return all;
}

// A few samples of every generator.
std::string small(const Generator& generator, int seed) {
  const std::string lengths = generator.name == "listops" ? "min=5,max=60," : "";
  return generator.name + "(" + lengths + "train=20,test=10,seed=" + std::to_string(seed) + ")";
}

TEST(Generators, EveryOneMakesWhatItSays) {
  for (const Generator& generator : generators()) {
    EXPECT_TRUE(is_generated(generator.name));
    const Task task = generated(small(generator, 3));
    EXPECT_THAT(task.name, testing::StartsWith(generator.name + "("));
    EXPECT_THAT(task.name, HasSubstr("train=20"));
    for (const auto& [open, split, count] : {std::tuple(task.train, "train", 20), {task.test, "test", 10}}) {
      const DatasetPtr data = open();
      const Description& description = data->description();
      ASSERT_EQ(data->size(), count) << generator.name;
      EXPECT_EQ(description.kind, generator.kind);
      EXPECT_EQ(description.name, task.name);
      EXPECT_EQ(description.split, split);
      EXPECT_EQ(description.checksum.size(), 16U);
      EXPECT_TRUE(std::is_sorted(description.classes.begin(), description.classes.end()));
      for (Index i = 0; i < count; ++i) {
        Sample sample;
        data->read(i, sample);
        EXPECT_EQ(sample.label, data->label(i));
        EXPECT_GE(sample.label, 0);
        EXPECT_LT(sample.label, static_cast<Index>(description.classes.size()));
        if (generator.kind == Kind::tokens) {
          EXPECT_EQ(static_cast<Index>(sample.tokens.size()), data->length(i));
          EXPECT_GT(*std::min_element(sample.tokens.begin(), sample.tokens.end()), 0);
          EXPECT_LT(*std::max_element(sample.tokens.begin(), sample.tokens.end()), description.vocabulary);
        } else if (generator.kind == Kind::series) {
          EXPECT_EQ(static_cast<Index>(sample.values.size()), data->length(i) * description.channels);
          EXPECT_EQ(description.channel_names.size(), static_cast<std::size_t>(description.channels));
        } else {
          EXPECT_EQ(static_cast<Index>(sample.values.size()),
                    description.channels * description.rows * description.columns);
        }
      }
    }
  }
}

TEST(Generators, SeedDecidesEverything) {
  for (const Generator& generator : generators()) {
    const auto checksum = [&](int seed) { return generated(small(generator, seed)).train()->description().checksum; };
    EXPECT_EQ(checksum(3), checksum(3)) << generator.name;
    EXPECT_NE(checksum(3), checksum(4)) << generator.name;
    const Task task = generated(small(generator, 3));
    EXPECT_NE(task.train()->description().checksum, task.test()->description().checksum) << generator.name;
  }
}

TEST(Generators, NamesAndDefaults) {
  EXPECT_EQ(generated("multiscale").name, "multiscale");
  EXPECT_EQ(generated("multiscale()").name, "multiscale");
  EXPECT_EQ(generated("multiscale( noise = 0.7 , train=2000 )").name, "multiscale(noise=0.7)");
  EXPECT_FALSE(is_generated("multiscal"));
  EXPECT_FALSE(is_generated("multiscale(noise=1"));
  EXPECT_FALSE(is_generated("JapaneseVowels"));
  EXPECT_FALSE(is_generated(""));
  EXPECT_TRUE(is_generated("multiscale(nonsense)"));
  EXPECT_TRUE(generated("listops(min=5,max=60,train=5,test=5,validation=5)").validation);
  EXPECT_FALSE(generated("listops(min=5,max=60,train=5,test=5,validation=0)").validation);
}

TEST(Generators, WrongTexts) {
  EXPECT_THAT(message_of("listop"), testing::AllOf(HasSubstr("no generator 'listop'"), HasSubstr("'listops'?")));
  EXPECT_THAT(message_of("listops(min=20"), HasSubstr("not closed"));
  EXPECT_THAT(message_of("listops(mn=20)"), testing::AllOf(HasSubstr("no option 'mn'"), HasSubstr("'min'?")));
  EXPECT_THAT(message_of("listops(min)"), HasSubstr("expected option=value, found 'min'"));
  EXPECT_THAT(message_of("listops(min=1,)"), HasSubstr("expected option=value, found ''"));
  EXPECT_THAT(message_of("listops(min=1,min=2)"), HasSubstr("given twice"));
  EXPECT_THAT(message_of("listops(min=1.5)"), HasSubstr("a whole number from 0 to"));
  EXPECT_THAT(message_of("listops(min=x)"), HasSubstr("found 'x'"));
  EXPECT_THAT(message_of("listops(min=nan)"), HasSubstr("found 'nan'"));
  EXPECT_THAT(message_of("listops(train=0)"), HasSubstr("found '0'"));
  EXPECT_THAT(message_of("listops(seed=-1)"), HasSubstr("found '-1'"));
  EXPECT_THAT(message_of("listops(min=50,max=51)"), HasSubstr("strictly between"));
  EXPECT_THAT(message_of("poker(validation=3)"), HasSubstr("no option 'validation'"));
  EXPECT_THAT(message_of("multiscale(noise=-0.1)"), HasSubstr("a number from 0 to 10"));
}

TEST(Poker, Classes) {
  const auto hand = [](std::initializer_list<std::pair<int, int>> cards) {
    Hand made;
    std::transform(cards.begin(), cards.end(), made.begin(), [](auto c) { return Card{c.first, c.second}; });
    return poker_class(made);
  };
  EXPECT_EQ(hand({{1, 1}, {1, 13}, {1, 10}, {1, 12}, {1, 11}}), 9);
  EXPECT_EQ(hand({{2, 1}, {2, 2}, {2, 3}, {2, 4}, {2, 5}}), 8);
  EXPECT_EQ(hand({{2, 9}, {2, 13}, {2, 12}, {2, 10}, {2, 11}}), 8);
  EXPECT_EQ(hand({{1, 7}, {2, 7}, {3, 7}, {4, 7}, {1, 1}}), 7);
  EXPECT_EQ(hand({{1, 7}, {2, 7}, {3, 7}, {4, 2}, {1, 2}}), 6);
  EXPECT_EQ(hand({{3, 1}, {3, 2}, {3, 3}, {3, 4}, {3, 6}}), 5);
  EXPECT_EQ(hand({{3, 1}, {3, 13}, {3, 12}, {3, 11}, {1, 10}}), 4);
  EXPECT_EQ(hand({{3, 1}, {3, 2}, {3, 3}, {3, 4}, {1, 5}}), 4);
  EXPECT_EQ(hand({{3, 1}, {3, 2}, {3, 13}, {3, 12}, {1, 11}}), 0);
  EXPECT_EQ(hand({{1, 7}, {2, 7}, {3, 7}, {4, 2}, {1, 3}}), 3);
  EXPECT_EQ(hand({{1, 7}, {2, 7}, {3, 3}, {4, 3}, {1, 2}}), 2);
  EXPECT_EQ(hand({{1, 7}, {2, 7}, {3, 3}, {4, 4}, {1, 2}}), 1);
}

// Natural frequencies within five standard deviations, all cards equally likely, none twice in a hand.
TEST(Poker, Frequencies) {
  constexpr int hands = 200000;
  const double expected[] = {0.501177, 0.422569, 0.047539, 0.021128, 0.003925, 0.001965, 0.001441, 0.000240};
  Stream stream(1, "poker");
  std::vector<int> classes(10), cards(52);
  for (int i = 0; i < hands; ++i) {
    const Hand hand = draw_hand(stream);
    std::set<int> different;
    for (const Card& card : hand) {
      const int number = (card.suit - 1) * 13 + card.rank - 1;
      ++cards.at(static_cast<std::size_t>(number));
      different.insert(number);
    }
    ASSERT_EQ(different.size(), 5U);
    ++classes[static_cast<std::size_t>(poker_class(hand))];
  }
  const auto check = [&](int found, double p) {
    EXPECT_NEAR(found, hands * p, 5 * std::sqrt(hands * p * (1 - p))) << p;
  };
  for (std::size_t c = 0; c < std::size(expected); ++c) check(classes[c], expected[c]);
  for (const int count : cards) check(count, 5.0 / 52);
}

// Accuracy on the test split of the ridge classifier on features [samples, F], one column per class.
double ridge_accuracy(const Eigen::MatrixXd& train, const std::vector<Sample>& train_samples,
                      const Eigen::MatrixXd& test, const std::vector<Sample>& test_samples, Index classes) {
  Eigen::MatrixXd target = Eigen::MatrixXd::Constant(train.rows(), classes, -1);
  for (Index i = 0; i < train.rows(); ++i) target(i, train_samples[static_cast<std::size_t>(i)].label) = 1;
  const Eigen::MatrixXd gram = train.transpose() * train + 10 * Eigen::MatrixXd::Identity(train.cols(), train.cols());
  const Eigen::MatrixXd scores = test * gram.ldlt().solve(train.transpose() * target);
  Index right = 0;
  for (Index i = 0; i < test.rows(); ++i) {
    Index best = 0;
    scores.row(i).maxCoeff(&best);
    right += best == test_samples[static_cast<std::size_t>(i)].label;
  }
  return static_cast<double>(right) / static_cast<double>(test.rows());
}

Eigen::MatrixXd raw(const std::vector<Sample>& list) {
  Eigen::MatrixXd values(static_cast<Index>(list.size()), static_cast<Index>(list.front().values.size()) + 1);
  for (Index i = 0; i < values.rows(); ++i) {
    for (Index j = 0; j + 1 < values.cols(); ++j)
      values(i, j) = list[static_cast<std::size_t>(i)].values[static_cast<std::size_t>(j)];
    values(i, values.cols() - 1) = 1;
  }
  return values;
}

// Power of the fast channel where the slow wave is high, and where it falls: what the task is about, in two numbers.
Index informed_answer(const Sample& sample) {
  constexpr Index channels = 3, half = 6;
  const auto value = [&](Index t, Index c) {
    return static_cast<double>(sample.values[static_cast<std::size_t>(t * channels + c)]);
  };
  double high = 0, falling = 0, level = 0, slope = 0;
  for (Index t = 2 * half; t + 2 * half < sample.length; ++t) {
    double before = 0, after = 0;
    for (Index k = 0; k < 2 * half; ++k) {
      before += value(t - k, 0);
      after += value(t + k, 0);
    }
    const double power = value(t, 1) * value(t, 1);
    high += power * (before + after);
    falling += power * (before - after);
    level += (before + after) * (before + after);
    slope += (before - after) * (before - after);
  }
  high /= std::sqrt(level);
  falling /= std::sqrt(slope);
  if (std::abs(high) > std::abs(falling)) return high > 0 ? 0 : 3;
  return falling > 0 ? 1 : 2;
}

// Raw values say nothing to a linear model; the relation of the scales says everything. docs/compare.md has the
// numbers.
TEST(Multiscale, NeedsBothScales) {
  const Task task = generated("multiscale");
  const std::vector<Sample> train = samples(*task.train()), test = samples(*task.test());
  const double linear = ridge_accuracy(raw(train), train, raw(test), test, 4);
  double informed = 0;
  for (const Sample& sample : test) informed += informed_answer(sample) == sample.label;
  informed /= static_cast<double>(test.size());
  RecordProperty("linear", std::to_string(linear));
  RecordProperty("informed", std::to_string(informed));
  EXPECT_NEAR(linear, 0.25, 0.05);
  EXPECT_GT(informed, 0.9);
  std::vector<int> labels(4);
  for (const Sample& sample : train) ++labels[static_cast<std::size_t>(sample.label)];
  for (const int count : labels) EXPECT_NEAR(count, 500, 5 * std::sqrt(375.0));
}

TEST(Multiscale, LengthAndNoise) {
  Stream stream(1, "test");
  const MultiscaleSample sample = draw_multiscale(stream, 64, 0);
  EXPECT_EQ(sample.values.size(), 192U);
  for (const float value : sample.values) EXPECT_LE(std::abs(value), 1.5F);
  const DatasetPtr data = generated("multiscale(length=40,train=3,noise=2)").train();
  EXPECT_EQ(data->description().max_length, 40);
}

}  // namespace
}  // namespace saddle::data
