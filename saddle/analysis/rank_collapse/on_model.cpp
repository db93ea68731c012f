// Rank collapse in a trained model: the tokens of every sample from block to block.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "saddle/analysis/rank_collapse/report_internal.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis::rank_collapse {

namespace {

// Tokens of one sample that exist.
Matrix tokens_of(const Array<double, 3>& all, Index sample, Index length) {
  Matrix tokens({length, all.shape()[2]});
  for (Index i = 0; i < length; ++i)
    for (Index c = 0; c < all.shape()[2]; ++c) tokens(i, c) = all(sample, i, c);
  return tokens;
}

// Of every layer; none if a layer does not show who looks at whom.
std::vector<Array<double, 4>> weights_of(const Probe& probe) {
  std::vector<Array<double, 4>> all;
  for (const ProbedLayer& layer : probe.layers) {
    all.push_back(token_weights(probe, layer));
    if (all.back().empty()) return {};
  }
  return all;
}

// Who attends to whom in some head of some layer. Layers without weights between tokens hide nothing.
Mask seen_mask(const std::vector<Array<double, 4>>& weights, Index sample, Index length) {
  if (weights.empty()) return complete_mask(length);
  Mask mask({length, length});
  for (const Array<double, 4>& layer : weights)
    for (Index h = 0; h < layer.shape()[1]; ++h)
      for (Index i = 0; i < length; ++i)
        for (Index j = 0; j < length; ++j)
          if (layer(sample, h, i, j) != 0) mask(i, j) = 1;
  return mask;
}

// The mean over heads of every layer.
std::vector<Matrix> mean_attention(const std::vector<Array<double, 4>>& weights, Index sample, Index length) {
  std::vector<Matrix> attention;
  for (const Array<double, 4>& layer : weights) {
    const Index H = layer.shape()[1];
    Matrix& own = attention.emplace_back(std::array<Index, 2>{length, length});
    for (Index h = 0; h < H; ++h)
      for (Index i = 0; i < length; ++i)
        for (Index j = 0; j < length; ++j) own(i, j) += layer(sample, h, i, j) / static_cast<double>(H);
  }
  return attention;
}

// Smallest weight on an edge of every layer, of the mean over heads: the theorem is about one matrix per layer, whose
// rows sum to 1. 0, of which nothing follows, where they do not.
std::vector<double> smallest_weights(const std::vector<Matrix>& attention, const Mask& mask) {
  std::vector<double> smallest;
  for (const Matrix& own : attention) {
    double least = std::numeric_limits<double>::infinity();
    for (Index i = 0; i < mask.size(); ++i)
      if (mask.data()[i] != 0) least = std::min(least, own.data()[i]);
    const Index N = own.shape()[0];
    for (Index i = 0; i < N; ++i)
      if (!(std::fabs(std::accumulate(&own(i, 0), &own(i, 0) + N, 0.0) - 1) <= 1e-4)) least = 0;
    smallest.push_back(least);
  }
  return smallest;
}

Matrix identity(Index N) {
  Matrix x({N, N});
  for (Index i = 0; i < N; ++i) x(i, i) = 1;
  return x;
}

// Tokens of all blocks, or of none.
void require_tokens(const Probe& probe) {
  const auto L = static_cast<Index>(probe.layers.size());
  const auto shown =
      std::count_if(probe.layers.begin(), probe.layers.end(), [](const auto& layer) { return !layer.tokens.empty(); });
  if (probe.tokens.empty() || shown == L) return;
  const auto silent =
      std::find_if(probe.layers.begin(), probe.layers.end(), [](const auto& layer) { return layer.tokens.empty(); });
  throw InvalidArgument(
      fmt::format("rank_collapse: layer {} does not show its tokens: {} layers need tokens {} times, found {}",
                  silent - probe.layers.begin(), L, L + 1, shown + 1),
      "tokens [L+1,B,N,X] has one entry more than there are layers: those before the first layer come first");
}

Course course_of(const Probe& probe, double rank_rtol) {
  const std::vector<Array<double, 4>> weights = weights_of(probe);
  const bool tokens = !probe.tokens.empty();
  if (probe.layers.empty() || (!tokens && weights.empty()))
    throw NotSupported("rank_collapse: this model shows neither its tokens between blocks nor its attention weights",
                       {}, "models that do: all with the usual encoder, such as time_series or vision_transformer");
  require_tokens(probe);
  std::vector<Trace> traces;
  std::vector<std::vector<Measures>> pure;
  for (std::size_t b = 0; b < probe.lengths.size(); ++b) {
    const auto sample = static_cast<Index>(b);
    const Index length = probe.lengths[b];
    const Mask mask = seen_mask(weights, sample, length);
    const std::vector<Matrix> attention = mean_attention(weights, sample, length);
    std::vector<Matrix> course{tokens ? tokens_of(probe.tokens, sample, length) : identity(length)};
    if (!weights.empty()) pure.push_back(pure_attention(course[0], attention));
    for (const ProbedLayer& layer : probe.layers)
      if (tokens) course.push_back(tokens_of(layer.tokens, sample, length));
    // Attention maps alone: what they do to tokens that are all different.
    if (!tokens)
      for (const Matrix& own : attention) course.push_back(product(own, course.back()));
    traces.push_back(observe(std::move(course), mask, smallest_weights(attention, mask), rank_rtol));
  }
  if (!tokens) pure.clear();
  return mean_course(probe.split, traces, true, pure);
}

}  // namespace

Result on_model(const ProbedModel& model, Options& options) {
  const double rank_rtol = options.number("rank_rtol", default_rank_rtol);
  options.check();
  std::vector<Course> courses;
  for (const Probe& probe : model.probes) courses.push_back(course_of(probe, rank_rtol));
  if (courses.empty()) throw InvalidArgument("rank_collapse: the model was not probed");
  Result result = report(model.name, courses);
  if (model.probes.front().tokens.empty())
    result.findings.emplace_back(
        "Only attention weights are given: tokens are those of attention alone, which all differ at the start.");
  else if (weights_of(model.probes.front()).empty())
    result.findings.emplace_back(
        "A layer shows no weights between tokens: every token is taken to see every other, and attention alone cannot "
        "be followed.");
  return result;
}

}  // namespace saddle::analysis::rank_collapse
