// Rank collapse in a trained model: the tokens of every sample from block to block.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "saddle/analysis/rank_collapse/rank_collapse.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis::rank_collapse {

namespace {

using Json = nlohmann::ordered_json;

// Tokens of one sample that exist.
Matrix tokens_of(const Array<double, 3>& all, Index sample, Index length) {
  Matrix tokens({length, all.shape()[2]});
  for (Index i = 0; i < length; ++i)
    for (Index c = 0; c < all.shape()[2]; ++c) tokens(i, c) = all(sample, i, c);
  return tokens;
}

bool has_token_weights(const ProbedLayer& layer) {
  return !layer.weights.empty() && layer.weights.shape()[2] == layer.weights.shape()[3];
}

// Who attends to whom in some head of some layer. Layers without weights between tokens hide nothing.
Mask seen_mask(const Probe& probe, Index sample, Index length) {
  Mask mask({length, length});
  for (const ProbedLayer& layer : probe.layers) {
    if (!has_token_weights(layer)) return complete_mask(length);
    for (Index h = 0; h < layer.weights.shape()[1]; ++h)
      for (Index i = 0; i < length; ++i)
        for (Index j = 0; j < length; ++j)
          if (layer.weights(sample, h, i, j) != 0) mask(i, j) = 1;
  }
  return mask;
}

// Smallest weight on an edge of every layer; nothing if a layer does not show its weights.
std::vector<double> smallest_weights(const Probe& probe, Index sample, const Mask& mask) {
  std::vector<double> smallest;
  for (const ProbedLayer& layer : probe.layers) {
    if (!has_token_weights(layer)) return {};
    double least = std::numeric_limits<double>::infinity();
    for (Index h = 0; h < layer.weights.shape()[1]; ++h)
      for (Index i = 0; i < mask.shape()[0]; ++i)
        for (Index j = 0; j < mask.shape()[1]; ++j)
          if (mask(i, j) != 0) least = std::min(least, layer.weights(sample, h, i, j));
    smallest.push_back(least);
  }
  return smallest;
}

struct Mean {
  std::vector<Measures> measures;
  double measured = 0, guaranteed = 0;
  Graph graph;  // of the first sample
};

Mean mean_of(const Probe& probe, double rank_rtol) {
  Mean mean;
  const Index B = probe.tokens.shape()[0];
  if (B == 0) throw InvalidArgument("rank_collapse: the " + probe.split + " split was probed without samples");
  mean.measures.resize(probe.layers.size() + 1);
  for (Index b = 0; b < B; ++b) {
    const Index length = probe.lengths[static_cast<std::size_t>(b)];
    std::vector<Matrix> tokens{tokens_of(probe.tokens, b, length)};
    for (const ProbedLayer& layer : probe.layers) tokens.push_back(tokens_of(layer.tokens, b, length));
    const Mask mask = seen_mask(probe, b, length);
    const Trace trace = observe(std::move(tokens), mask, smallest_weights(probe, b, mask), rank_rtol);
    const double share = 1 / static_cast<double>(B);
    for (std::size_t t = 0; t < mean.measures.size(); ++t)
      for (double Measures::*field :
           {&Measures::mu, &Measures::mu_relative, &Measures::effective_rank, &Measures::stable_rank, &Measures::rank,
            &Measures::sigma_min, &Measures::cos_abs_mean, &Measures::cos_mean, &Measures::oscillation}) {
        const double value = trace.measures[t].*field;
        mean.measures[t].*field += share * (std::isnan(value) ? 1 : value);  // a single token is like itself
      }
    mean.measured += share * (std::isnan(trace.measured) ? 1 : trace.measured);
    mean.guaranteed += share * trace.guaranteed;
    if (b == 0) mean.graph = trace.graph;
  }
  return mean;
}

std::string graph_text(const Graph& graph) {
  const auto centres = std::count(graph.centre.begin(), graph.centre.end(), true);
  if (!graph.quasi_strongly_connected)
    return "no token reaches all others: groups of tokens collapse separately, if at all";
  return fmt::format("{} of {} tokens reach all others (centres), radius {}{}", centres, graph.centre.size(),
                     graph.radius, graph.strongly_connected ? ", strongly connected" : "");
}

}  // namespace

Result on_model(const ProbedModel& model, Options& options) {
  const double rank_rtol = options.number("rank_rtol", default_rank_rtol);
  options.check();
  Result result;
  result.about =
      "How far the tokens of a sample lie from their mean, and how many directions they span, from the embedding (0) "
      "to "
      "the last block. Tokens that keep apart hold mu/|X| well above 0.1 and a mean |cosine| below about 0.5; a "
      "falling "
      "line and a cosine near 1 mean that later blocks see tokens that hardly differ.";
  Table table{"Blocks",
              {"split", "after block", "mu", "mu/|X|", "effective rank", "stable rank", "rank",
               "smallest singular value", "mean |cosine|"},
              {}};
  Chart spread{"Distance of tokens from their mean", "block", "mu / |X|", {}, true};
  Chart ranks{"Effective rank of the tokens", "block", "effective rank", {}, false};
  Chart cosines{"Mean |cosine| of pairs of tokens", "block", "|cosine|", {}, false};
  Json splits = Json::array();
  for (const Probe& probe : model.probes) {
    const Mean mean = mean_of(probe, rank_rtol);
    Curve mu{probe.split, {}}, rank{probe.split, {}}, cosine{probe.split, {}};
    Json layers = Json::array();
    for (std::size_t t = 0; t < mean.measures.size(); ++t) {
      const Measures& m = mean.measures[t];
      const auto at = static_cast<double>(t);
      mu.points.emplace_back(at, m.mu_relative);
      rank.points.emplace_back(at, m.effective_rank);
      cosine.points.emplace_back(at, m.cos_abs_mean);
      table.rows.push_back({probe.split, std::to_string(t), fmt::format("{:.4g}", m.mu),
                            fmt::format("{:.3g}", m.mu_relative), fmt::format("{:.2f}", m.effective_rank),
                            fmt::format("{:.2f}", m.stable_rank), fmt::format("{:.1f}", m.rank),
                            fmt::format("{:.2g}", m.sigma_min), fmt::format("{:.3f}", m.cos_abs_mean)});
      layers.push_back({{"block", t},
                        {"mu", m.mu},
                        {"mu_relative", m.mu_relative},
                        {"effective_rank", m.effective_rank},
                        {"stable_rank", m.stable_rank},
                        {"rank", m.rank},
                        {"sigma_min", m.sigma_min},
                        {"cos_abs_mean", m.cos_abs_mean},
                        {"cos_mean", m.cos_mean},
                        {"oscillation", m.oscillation}});
    }
    spread.curves.push_back(std::move(mu));
    ranks.curves.push_back(std::move(rank));
    cosines.curves.push_back(std::move(cosine));
    splits.push_back({{"split", probe.split},
                      {"layers", layers},
                      {"measured_rate", mean.measured},
                      {"guaranteed_rate", mean.guaranteed},
                      {"radius", mean.graph.radius},
                      {"centres", std::count(mean.graph.centre.begin(), mean.graph.centre.end(), true)},
                      {"quasi_strongly_connected", mean.graph.quasi_strongly_connected},
                      {"strongly_connected", mean.graph.strongly_connected}});
    if (&probe == &model.probes.front())
      result.findings.push_back("Mask, as the first sample shows it: " + graph_text(mean.graph) + ".");
    result.findings.push_back(
        fmt::format("{}: mu/|X| changes by a factor of {:.3g} per block; pure attention with these weights is sure to "
                    "fall by {:.6g}.",
                    probe.split, mean.measured, mean.guaranteed));
  }
  result.tables.push_back(std::move(table));
  result.charts = {std::move(spread), std::move(ranks), std::move(cosines)};
  result.json = Json{{"model", model.name}, {"splits", splits}}.dump();
  return result;
}

}  // namespace saddle::analysis::rank_collapse
