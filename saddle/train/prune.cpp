#include "saddle/train/prune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "saddle/analysis/head_redundancy/head_redundancy.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"
#include "saddle/base/text.hpp"
#include "saddle/train/probe.hpp"

namespace saddle::train {

namespace {

using Scores = std::vector<std::vector<double>>;

Scores theory_scores(const nn::Model& model, const analysis::Probe& train, const ScoreOptions& options,
                     std::vector<std::string>& notes) {
  const auto found = analysis::attention_paths::grouped_head_scores(train, options.theory);
  Scores scores(train.layers.size());
  for (const auto& each : found.scores) scores[static_cast<std::size_t>(each.layer)].push_back(each.score);
  for (std::size_t layer = 0; layer < scores.size(); ++layer) {
    if (!nn::can_lose_heads(model, layer)) {
      scores[layer].clear();
    } else if (scores[layer].empty()) {
      throw NotSupported(fmt::format("the theory has no scores for the heads of layer {} ({}): it shows no weights "
                                     "between tokens",
                                     layer, train.layers[layer].attention),
                         {}, "--by magnitude or --by redundancy takes every attention");
    }
  }
  if (found.groups.size() > 1)
    notes.push_back(
        fmt::format("the layers make too many paths: the theory looked at {} groups of layers, each by "
                    "itself, from layers {}",
                    found.groups.size(), fmt::join(found.groups, ", ")));
  if (found.unconverged > 0)
    notes.push_back(fmt::format("the theory's minimum was not reached {} times", found.unconverged));
  return scores;
}

// Distances between the heads of a layer, by the size of their outputs.
std::vector<Array<double, 2>> distances_of(const nn::Model& model, const analysis::Probe& train) {
  std::vector<Array<double, 2>> distances(train.layers.size());
  for (std::size_t layer = 0; layer < distances.size(); ++layer)
    if (nn::can_lose_heads(model, layer))
      distances[layer] = analysis::head_redundancy::measure(train.layers[layer].heads, train.lengths).pairs;
  return distances;
}

// To the others among `heads`, nearest first.
std::vector<double> sorted_distances(const Array<double, 2>& pairs, Index head, const std::vector<Index>& heads) {
  std::vector<double> list;
  for (const Index other : heads)
    if (other != head) list.push_back(pairs(head, other));
  std::sort(list.begin(), list.end());
  return list;
}

// Of the two that are nearest goes the one that is nearer to the rest.
void order_redundant_first(const std::vector<Array<double, 2>>& distances, Ranking& ranking) {
  std::vector<std::vector<Index>> left(distances.size());
  for (std::size_t layer = 0; layer < left.size(); ++layer)
    for (Index head = 0; head < distances[layer].shape()[0]; ++head) left[layer].push_back(head);
  while (true) {
    std::optional<Head> next;
    std::vector<double> nearest;
    for (std::size_t layer = 0; layer < left.size(); ++layer) {
      if (left[layer].size() < 2) continue;
      for (const Index head : left[layer]) {
        std::vector<double> own = sorted_distances(distances[layer], head, left[layer]);
        if (next && !(own < nearest)) continue;
        next = Head{static_cast<Index>(layer), head};
        nearest = std::move(own);
      }
    }
    if (!next) break;
    ranking.order.push_back(*next);
    ranking.turns.push_back(nearest.front());
    std::erase(left[static_cast<std::size_t>(next->layer)], next->head);
  }
  for (std::size_t layer = 0; layer < left.size(); ++layer)
    for (const Index head : left[layer]) {
      ranking.order.push_back({static_cast<Index>(layer), head});
      ranking.turns.push_back(std::nan(""));
    }
}

void order_smallest_first(Ranking& ranking) {
  const Scores& scores = ranking.scores;
  std::vector<Head>& order = ranking.order;
  for (std::size_t layer = 0; layer < scores.size(); ++layer)
    for (std::size_t head = 0; head < scores[layer].size(); ++head)
      order.push_back({static_cast<Index>(layer), static_cast<Index>(head)});
  const auto score = [&](const Head& h) {
    return scores[static_cast<std::size_t>(h.layer)][static_cast<std::size_t>(h.head)];
  };
  std::stable_sort(order.begin(), order.end(), [&](const Head& a, const Head& b) { return score(a) < score(b); });
  for (const Head& head : order) ranking.turns.push_back(score(head));
}

void require_prunable(const nn::Model& model) {
  const nn::KeptHeads all = nn::all_heads(model);
  for (std::size_t layer = 0; layer < all.size(); ++layer)
    if (nn::can_lose_heads(model, layer)) return;
  std::vector<std::string> layers;
  for (const nn::AttentionOfLayer& each : model.attentions())
    layers.push_back(fmt::format("{} with {} {}", each.attention, each.heads, each.heads == 1 ? "head" : "heads"));
  throw NotSupported(fmt::format("no layer of this model can lose heads: {}", join(layers)), {},
                     "layers with a declared attention such as softmax and more than one head can");
}

}  // namespace

const std::vector<std::string>& head_score_names() {
  static const std::vector<std::string> names{"theory", "magnitude", "redundancy", "random"};
  return names;
}

void check_head_score(const std::string& by) {
  const auto& names = head_score_names();
  if (std::find(names.begin(), names.end(), by) == names.end())
    throw InvalidArgument(fmt::format("unknown score '{}', expected {}", by, join(names)));
}

bool needs_probe(const std::string& by) { return by == "theory" || by == "redundancy"; }

Ranking rank_heads(const Trained& trained, const analysis::Probe& train, const std::string& by,
                   const ScoreOptions& options) {
  check_head_score(by);
  const nn::Model& model = *trained.model;
  require_prunable(model);
  Ranking ranking;
  ranking.by = by;
  if (by == "theory") {
    ranking.scores = theory_scores(model, train, options, ranking.notes);
  } else if (by == "magnitude") {
    ranking.scores = nn::head_norms(model);
  } else if (by == "redundancy") {
    const std::vector<Array<double, 2>> distances = distances_of(model, train);
    for (const Array<double, 2>& own : distances) {
      std::vector<Index> all(static_cast<std::size_t>(own.shape()[0]));
      std::iota(all.begin(), all.end(), Index{0});
      auto& scores = ranking.scores.emplace_back();
      for (const Index head : all) scores.push_back(sorted_distances(own, head, all).front());
    }
    order_redundant_first(distances, ranking);
    return ranking;
  } else {
    Stream stream(options.seed, "prune");
    for (const auto& heads : nn::all_heads(model)) {
      auto& scores = ranking.scores.emplace_back();
      const bool goes = nn::can_lose_heads(model, ranking.scores.size() - 1);
      for (std::size_t head = 0; goes && head < heads.size(); ++head) scores.push_back(stream.uniform());
    }
  }
  order_smallest_first(ranking);
  return ranking;
}

analysis::Probe probe_training(const Trained& trained, const data::DatasetPtr& data, const std::vector<Index>& samples,
                               Index count) {
  const auto total = static_cast<Index>(samples.size());
  if (count == 0) {
    constexpr double most_bytes = 256e6;
    const analysis::Probe one = probe(trained, data, {samples.front()}, "train", false);
    double bytes = 1;
    for (const analysis::ProbedLayer& layer : one.layers) bytes += 8 * static_cast<double>(layer.weights.size());
    count = std::clamp<Index>(static_cast<Index>(most_bytes / bytes), 8, 128);
  }
  count = std::min(count, total);
  std::vector<Index> chosen;
  for (Index i = 0; i < count; ++i) chosen.push_back(samples[static_cast<std::size_t>(i * total / count)]);
  return probe(trained, data, chosen, "train", false);
}

nn::KeptHeads kept_heads(const nn::Model& model, const Ranking& ranking, const std::vector<Index>& least, Index total) {
  nn::KeptHeads kept = nn::all_heads(model);
  const Index all = head_count(kept), fewest = std::accumulate(least.begin(), least.end(), Index{0});
  if (total > all) throw InvalidArgument(fmt::format("{} heads cannot be kept: the model has {}", total, all));
  if (total < fewest)
    throw InvalidArgument(fmt::format("{} of {} heads cannot be kept: at least {} must stay", total, all, fewest),
                          "every layer keeps at least one");
  Index count = all;
  for (const Head& head : ranking.order) {
    if (count == total) break;
    auto& own = kept[static_cast<std::size_t>(head.layer)];
    if (static_cast<Index>(own.size()) <= least[static_cast<std::size_t>(head.layer)]) continue;
    std::erase(own, head.head);
    --count;
  }
  return kept;
}

std::vector<Index> fewest_heads(const nn::Model& model) {
  std::vector<Index> fewest;
  for (const auto& heads : nn::all_heads(model))
    fewest.push_back(nn::can_lose_heads(model, fewest.size()) ? 1 : static_cast<Index>(heads.size()));
  return fewest;
}

Index head_count(const nn::KeptHeads& heads) {
  Index count = 0;
  for (const auto& own : heads) count += static_cast<Index>(own.size());
  return count;
}

Trained with_heads(const Trained& trained, const nn::KeptHeads& kept, bool rescale) {
  Trained smaller = trained;
  smaller.model = nn::with_heads(*trained.model, kept);
  if (rescale) nn::rescale_layers(*smaller.model, *trained.model);
  return smaller;
}

}  // namespace saddle::train
