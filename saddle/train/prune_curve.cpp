#include "saddle/train/prune_curve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "saddle/base/error.hpp"
#include "saddle/train/evaluate.hpp"

namespace saddle::train {

namespace {

// From all heads down to the fewest, at most so many, evenly spread.
std::vector<Index> counts_between(Index all, Index fewest, Index most) {
  const Index steps = all - fewest, points = std::min(steps + 1, std::max<Index>(most, 2));
  std::vector<Index> counts;
  for (Index i = 0; i < points; ++i) counts.push_back(points == 1 ? all : all - i * steps / (points - 1));
  return counts;
}

std::vector<Ranking> rankings_of(const Trained& trained, const Judged& train, const CurveOptions& options,
                                 std::vector<std::string>& notes) {
  std::set<std::string> different;
  for (const std::string& by : options.by)
    if (!different.insert(by).second) throw InvalidArgument(fmt::format("the score '{}' is asked for twice", by));
  if (different.empty()) throw InvalidArgument("no score says in which order heads go");
  analysis::Probe seen;
  if (std::any_of(options.by.begin(), options.by.end(), needs_probe))
    seen = probe_training(trained, train.data, train.samples, options.samples);
  std::vector<Ranking> rankings;
  for (const std::string& by : options.by) {
    const Index draws = by == "random" ? options.draws : 1;
    ScoreOptions own = options.score;
    for (Index draw = 0; draw < draws; ++draw, ++own.seed) try {
        rankings.push_back(rank_heads(trained, seen, by, own));
        notes.insert(notes.end(), rankings.back().notes.begin(), rankings.back().notes.end());
      } catch (const NotSupported& error) {
        if (by != "theory" || options.by.size() == 1) throw;
        notes.push_back(fmt::format("left out: {}", error.what()));
      }
  }
  return rankings;
}

}  // namespace

Score judge(const Trained& trained, const Judged& judged) {
  constexpr Index batch = 64;
  Group alone;
  const Evaluation evaluation = evaluate(trained, judged.data, judged.samples, batch, alone, false);
  return {evaluation.accuracy, evaluation.loss};
}

PruneCurves prune_curves(const Trained& trained, const Judged& train, const std::vector<Judged>& judged,
                         const CurveOptions& options) {
  PruneCurves result;
  const std::vector<Ranking> rankings = rankings_of(trained, train, options, result.notes);
  const std::vector<Index> fewest = fewest_heads(*trained.model);
  const std::vector<Index> counts =
      counts_between(head_count(nn::all_heads(*trained.model)), std::accumulate(fewest.begin(), fewest.end(), Index{0}),
                     options.most_points);
  const auto point_of = [&](const Trained& model, Index kept) {
    PrunePoint point{kept, {}};
    for (const Judged& each : judged) point.scores.push_back(judge(model, each));
    return point;
  };
  const Index total = 1 + static_cast<Index>(rankings.size() * (counts.size() - 1));
  Index done = 0;
  const PrunePoint whole = point_of(trained, counts.front());
  options.progress(++done, total);
  for (const Ranking& ranking : rankings) {
    PruneCurve& curve = result.curves.emplace_back();
    curve.by = ranking.by;
    curve.points.push_back(whole);
    for (std::size_t i = 1; i < counts.size(); ++i) {
      const nn::KeptHeads kept = kept_heads(*trained.model, ranking, fewest, counts[i]);
      curve.points.push_back(point_of(with_heads(trained, kept, options.rescale), counts[i]));
      options.progress(++done, total);
    }
  }
  return result;
}

}  // namespace saddle::train
