#include "saddle/eval/metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "saddle/base/error.hpp"

namespace saddle::eval {
namespace {

using testing::ElementsAre;
using Labels = std::vector<Index>;

// scikit-learn 1.2.1: precision_recall_fscore_support(labels, predicted, zero_division=0)
TEST(Metrics, FromPredictions) {
  const Metrics metrics = metrics_of(Labels{0, 0, 1, 1, 1, 2}, Labels{0, 1, 1, 1, 0, 0}, 4);
  EXPECT_EQ(metrics.count, 6);
  EXPECT_DOUBLE_EQ(metrics.accuracy, 0.5);
  EXPECT_THAT(metrics.confusion, ElementsAre(ElementsAre(1, 1, 0, 0), ElementsAre(1, 2, 0, 0), ElementsAre(1, 0, 0, 0),
                                             ElementsAre(0, 0, 0, 0)));
  EXPECT_DOUBLE_EQ(metrics.per_class[0].precision, 1.0 / 3);
  EXPECT_DOUBLE_EQ(metrics.per_class[0].recall, 0.5);
  EXPECT_DOUBLE_EQ(metrics.per_class[0].f1, 0.4);
  EXPECT_DOUBLE_EQ(metrics.per_class[1].f1, 2.0 / 3);
  EXPECT_EQ(metrics.per_class[1].support, 3);
  EXPECT_EQ(metrics.per_class[2].precision, 0);
  EXPECT_EQ(metrics.per_class[2].f1, 0);
  EXPECT_EQ(metrics.per_class[3].support, 0);
}

TEST(Evaluation, InBatches) {
  Evaluation evaluation(2, 3);
  evaluation.add(Labels{0, 1}, std::vector<double>{0.8, 0.2, 0.5, 0.5});
  evaluation.add(Labels{1}, std::vector<double>{0.25, 0.75});
  const Metrics metrics = evaluation.result();
  EXPECT_DOUBLE_EQ(metrics.accuracy, 2.0 / 3);  // a tie goes to the first class
  EXPECT_DOUBLE_EQ(metrics.log_loss, -(std::log(0.8) + std::log(0.5) + std::log(0.75)) / 3);
}

TEST(Evaluation, CertainAndWrongIsFinite) {
  Evaluation evaluation(2, 1);
  evaluation.add(Labels{0}, std::vector<double>{0, 1});
  EXPECT_NEAR(evaluation.result().log_loss, 708.4, 0.1);
}

TEST(Evaluation, EverySampleCounts) {
  Evaluation evaluation(2, 3);
  evaluation.add(Labels{0, 1}, std::vector<double>{0.8, 0.2, 0.5, 0.5});
  EXPECT_THROW(evaluation.result(), InvalidArgument);
  evaluation.add(Labels{0, 1}, std::vector<double>{0.8, 0.2, 0.5, 0.5});
  EXPECT_THROW(evaluation.result(), InvalidArgument);
  EXPECT_THROW(Evaluation(2, 0).result(), InvalidArgument);
}

TEST(Evaluation, RefusesWhatIsNoProbability) {
  Evaluation evaluation(2, 1);
  const auto add = [&](const Labels& labels, const std::vector<double>& p) { evaluation.add(labels, p); };
  EXPECT_THROW(add({2}, {0.5, 0.5}), InvalidArgument);
  EXPECT_THROW(add({-1}, {0.5, 0.5}), InvalidArgument);
  EXPECT_THROW(add({0}, {0.5, 0.4}), InvalidArgument);
  EXPECT_THROW(add({0}, {1.5, -0.5}), InvalidArgument);
  EXPECT_THROW(add({0}, {std::numeric_limits<double>::quiet_NaN(), 1}), InvalidArgument);
  EXPECT_THROW(add({0}, {0.5, 0.5, 0.0}), InvalidArgument);
  EXPECT_THROW(metrics_of(Labels{0}, Labels{}, 2), InvalidArgument);
  EXPECT_THROW(metrics_of(Labels{0}, Labels{2}, 2), InvalidArgument);
  EXPECT_THROW(metrics_of(Labels{}, Labels{}, 2), InvalidArgument);
  EXPECT_THROW(metrics_of(Labels{0}, Labels{0}, 0), InvalidArgument);
}

}  // namespace
}  // namespace saddle::eval
