#include "saddle/train/prune.hpp"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "places.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"
#include "saddle/nn/models/registry.hpp"
#include "saddle/train/evaluate.hpp"
#include "saddle/train/prune_curve.hpp"
#include "saddle/train/run_folder.hpp"
#include "saddle/train/setup.hpp"

namespace saddle::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* waves = SADDLE_SOURCE_DIR "/examples/data/waves";

// A model that has not been trained on data that exist: scores and sizes need no more.
Setup made(const std::string& attention, const std::string& depth = "2") {
  return set_up(run::resolve({{"data.name", waves, "test"},
                              {"model.attention", attention, "test"},
                              {"model.width", "16", "test"},
                              {"model.heads", "4", "test"},
                              {"model.depth", depth, "test"}}));
}

analysis::Probe seen_by(const Setup& setup, Index count = 0) {
  return probe_training(setup.trained, setup.train, setup.split.train, count);
}

// Outputs of two layers of four heads at one token.
analysis::Probe outputs(const std::vector<std::vector<double>>& layers) {
  analysis::Probe probe;
  probe.lengths = {1};
  for (const auto& heads : layers) {
    analysis::ProbedLayer& layer = probe.layers.emplace_back();
    layer.heads = Array<double, 4>({1, static_cast<Index>(heads.size()), 1, 1});
    for (std::size_t h = 0; h < heads.size(); ++h) layer.heads(0, static_cast<Index>(h), 0, 0) = heads[h];
  }
  return probe;
}

TEST(PruneRanking, OfTwinsOneStays) {
  const auto setup = made("softmax");
  // In layer 0 heads 1 and 3 are alike, in layer 1 all are far apart.
  const Ranking ranking = rank_heads(setup.trained, outputs({{10, 2, -10, 2.001}, {1, -1, 3, -3}}), "redundancy");
  ASSERT_EQ(ranking.order.size(), 8u);
  const Head first = ranking.order[0], second = ranking.order[1];
  EXPECT_EQ(first, (Head{0, 3}));  // nearer to head 0 than its twin
  EXPECT_EQ(second.layer, 1);      // without it, head 1 is far from all others
  EXPECT_NEAR(ranking.scores[0][1], ranking.scores[0][3], 1e-12);
  EXPECT_LT(ranking.scores[0][1], 0.01);
  EXPECT_GT(ranking.scores[1][0], 0.5);
}

// What is smallest when its turn comes need not be smallest in the whole model.
TEST(PruneRanking, RedundancyIsTheScoreAtTheTurn) {
  const auto setup = made("softmax");
  const Ranking ranking = rank_heads(setup.trained, outputs({{10, 2, -10, 2.001}, {1, -1, 3, -3}}), "redundancy");
  ASSERT_EQ(ranking.turns.size(), ranking.order.size());
  const auto before = [&](const Head& head) {
    return ranking.scores[static_cast<std::size_t>(head.layer)][static_cast<std::size_t>(head.head)];
  };
  EXPECT_EQ(ranking.turns[0], before(ranking.order[0]));
  // Head 1 of layer 0 was near to its twin, which is gone.
  const auto at = std::find(ranking.order.begin(), ranking.order.end(), Head{0, 1}) - ranking.order.begin();
  ASSERT_LT(at, 6);
  EXPECT_LT(before({0, 1}), 0.01);
  EXPECT_GT(ranking.turns[static_cast<std::size_t>(at)], 0.1);
  // Two heads are left, one of each layer, with nothing to be near to.
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(std::isnan(ranking.turns[i]), i >= 6) << i;
}

TEST(PruneRanking, MagnitudeAndRandomAscend) {
  const auto setup = made("softmax");
  for (const char* by : {"magnitude", "random"}) {
    const Ranking ranking = rank_heads(setup.trained, {}, by, {.seed = 7});
    ASSERT_EQ(ranking.order.size(), 8u);
    double before = -1;
    for (const Head& head : ranking.order) {
      const double score = ranking.scores[static_cast<std::size_t>(head.layer)][static_cast<std::size_t>(head.head)];
      EXPECT_GT(score, before) << by;
      before = score;
      EXPECT_EQ(score, ranking.turns[static_cast<std::size_t>(&head - ranking.order.data())]) << by;
    }
  }
  const auto order = [&](std::uint64_t seed) { return rank_heads(setup.trained, {}, "random", {.seed = seed}).order; };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(PruneRanking, TheoryScoresEveryHead) {
  const auto setup = made("softmax+sh,softmax+bn(beta=0.5)");
  const Ranking ranking = rank_heads(setup.trained, seen_by(setup, 12), "theory");
  ASSERT_EQ(ranking.scores.size(), 2u);
  double largest = 0;
  for (const auto& layer : ranking.scores) {
    EXPECT_EQ(layer.size(), 4u);
    for (const double score : layer) {
      EXPECT_GT(score, 0);
      largest = std::max(largest, score);
    }
  }
  EXPECT_EQ(largest, 1);
  EXPECT_TRUE(ranking.notes.empty());
  // 4^5 paths are too many at once.
  const auto deep = made("softmax", "5");
  const Ranking grouped = rank_heads(deep.trained, seen_by(deep, 6), "theory");
  EXPECT_EQ(grouped.order.size(), 20u);
  ASSERT_EQ(grouped.notes.size(), 1u);
  EXPECT_THAT(grouped.notes[0], HasSubstr("2 groups of layers"));
}

TEST(PruneRanking, LayersOfOtherKindsStayWhole) {
  const auto setup = made("softmax,cat");
  const analysis::Probe seen = seen_by(setup, 8);
  for (const std::string& by : head_score_names()) {
    const Ranking ranking = rank_heads(setup.trained, seen, by);
    EXPECT_EQ(ranking.scores[0].size(), 4u) << by;
    EXPECT_TRUE(ranking.scores[1].empty()) << by;
    EXPECT_EQ(ranking.order.size(), 4u) << by;
  }
  EXPECT_THAT(fewest_heads(*setup.trained.model), ElementsAre(1, 4));
  EXPECT_THROW(rank_heads(made("cat").trained, {}, "magnitude"), NotSupported);
  EXPECT_THROW(rank_heads(setup.trained, seen, "luck"), InvalidArgument);
}

TEST(PruneChoice, GoesDownTheOrderAndSparesLayers) {
  const auto setup = made("softmax");
  Ranking ranking;
  ranking.order = {{0, 2}, {0, 0}, {0, 1}, {0, 3}, {1, 3}, {1, 0}, {1, 1}, {1, 2}};
  const nn::Model& model = *setup.trained.model;
  const auto kept = [&](Index total) { return kept_heads(model, ranking, {1, 1}, total); };
  EXPECT_EQ(kept(8), nn::all_heads(model));
  EXPECT_EQ(kept(6), (nn::KeptHeads{{1, 3}, {0, 1, 2, 3}}));
  EXPECT_EQ(kept(4), (nn::KeptHeads{{3}, {0, 1, 2}}));
  EXPECT_EQ(kept(2), (nn::KeptHeads{{3}, {2}}));
  EXPECT_EQ(kept_heads(model, ranking, {2, 2}, 4), (nn::KeptHeads{{1, 3}, {1, 2}}));
  EXPECT_THAT([&] { kept(1); }, ThrowsMessage<InvalidArgument>(HasSubstr("at least 2 must stay")));
  EXPECT_THAT([&] { kept(9); }, ThrowsMessage<InvalidArgument>(HasSubstr("9 heads cannot be kept: the model has 8")));
}

// A smaller model may stand in a file alone: it keeps the settings of its run.
TEST(PruneFile, SaysWhatItWasTrainedOn) {
  const auto setup = made("softmax");
  const Trained smaller = with_heads(setup.trained, {{1}, {0, 2}});
  std::string folder = (std::filesystem::temp_directory_path() / "saddle-prune-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::filesystem::path file = std::filesystem::path(folder) / "small.safetensors";
  write_trained(file, smaller, weights_of(*smaller.model), run::to_toml(setup.settings, false));
  const auto told = settings_of_run(file);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->data.name, waves);
  EXPECT_TRUE(run::differences(setup.settings, *told).empty());
  EXPECT_EQ(head_count(nn::all_heads(*read_trained(file).model)), 3);
  write_trained(file, smaller, weights_of(*smaller.model));
  EXPECT_FALSE(settings_of_run(file));
  std::filesystem::remove_all(folder);
}

TEST(PruneCurve, BeginsWithTheWholeModelAndEndsWithTheFewest) {
  const auto setup = made("softmax");
  const Judged train{"training", setup.train, setup.split.train};
  const Judged validation{"validation", setup.validation, setup.split.validation};
  CurveOptions options;
  options.draws = 2;
  options.samples = 8;
  Index reported = 0;
  options.progress = [&](Index done, Index total) {
    EXPECT_EQ(done, ++reported);
    EXPECT_LE(done, total);
  };
  const PruneCurves found = prune_curves(setup.trained, train, {validation, train}, options);
  ASSERT_EQ(found.curves.size(), 5u);
  EXPECT_EQ(reported, 1 + 5 * 6);
  const Score whole = judge(setup.trained, validation);
  for (const train::PruneCurve& curve : found.curves) {
    ASSERT_EQ(curve.points.size(), 7u);
    EXPECT_EQ(curve.points.front().kept, 8);
    EXPECT_EQ(curve.points.back().kept, 2);
    EXPECT_EQ(curve.points.front().scores[0].loss, whole.loss);
    // A model without the heads of the ranking is what was judged.
    if (curve.by != "magnitude") continue;
    const Ranking ranking = rank_heads(setup.trained, {}, curve.by);
    const Trained smaller = with_heads(setup.trained, kept_heads(*setup.trained.model, ranking, {1, 1}, 5));
    EXPECT_EQ(curve.points[3].kept, 5);
    EXPECT_EQ(curve.points[3].scores[0].loss, judge(smaller, validation).loss);
  }
}

TEST(PruneCurve, EveryScoreStandsOnce) {
  const auto setup = made("softmax");
  const Judged validation{"validation", setup.validation, setup.split.validation};
  CurveOptions options;
  for (const auto& by : {std::vector<std::string>{"magnitude", "magnitude"}, {}}) {
    options.by = by;
    EXPECT_THROW(prune_curves(setup.trained, validation, {validation}, options), InvalidArgument);
  }
}

TEST(PruneCurve, HasFewPointsForManyHeads) {
  const auto setup = made("softmax", "4");
  CurveOptions options;
  options.by = {"magnitude"};
  options.most_points = 4;
  const Judged validation{"validation", setup.validation, setup.split.validation};
  const PruneCurves found = prune_curves(setup.trained, validation, {validation}, options);
  std::vector<Index> kept;
  for (const PrunePoint& point : found.curves[0].points) kept.push_back(point.kept);
  EXPECT_THAT(kept, ElementsAre(16, 12, 8, 4));
}

}  // namespace
}  // namespace saddle::train
