#include "saddle/analysis/rank_collapse/mask.hpp"

#include <algorithm>
#include <cmath>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::analysis::rank_collapse {

namespace {

template <class Allowed>
Mask filled(Index N, Allowed allowed) {
  if (N < 1) throw InvalidArgument("a mask needs at least one token, found " + std::to_string(N));
  Mask mask({N, N});
  for (Index i = 0; i < N; ++i)
    for (Index j = 0; j < N; ++j) mask(i, j) = allowed(i, j) ? 1 : 0;
  return mask;
}

void require_at_least(const char* mask, const char* what, Index value, Index least) {
  if (value < least)
    throw InvalidArgument(std::string("the ") + what + " of a " + mask + " mask must be at least " +
                          std::to_string(least) + ", found " + std::to_string(value));
}

// Tokens that look at a token, for every token: edges j -> i by j.
std::vector<std::vector<Index>> followers_of(const Mask& mask) {
  const Index N = mask.shape()[0];
  std::vector<std::vector<Index>> followers(static_cast<std::size_t>(N));
  for (Index j = 0; j < N; ++j)
    for (Index i = 0; i < N; ++i)
      if (mask(i, j) != 0 && i != j) followers[static_cast<std::size_t>(j)].push_back(i);
  return followers;
}

// Breadth first: the longest of the shortest paths from `start`, -1 if some token is not reached.
Index eccentricity_of(Index start, const std::vector<std::vector<Index>>& followers) {
  std::vector<Index> distance(followers.size(), -1), queue{start};
  distance[static_cast<std::size_t>(start)] = 0;
  for (std::size_t next = 0; next < queue.size(); ++next) {
    const auto from = static_cast<std::size_t>(queue[next]);
    for (const Index to : followers[from]) {
      Index& there = distance[static_cast<std::size_t>(to)];
      if (there >= 0) continue;
      there = distance[from] + 1;
      queue.push_back(to);
    }
  }
  return queue.size() == followers.size() ? distance[static_cast<std::size_t>(queue.back())] : -1;
}

}  // namespace

Mask complete_mask(Index N) {
  return filled(N, [](Index, Index) { return true; });
}

Mask causal_mask(Index N) {
  return filled(N, [](Index i, Index j) { return j <= i; });
}

Mask sliding_mask(Index N, Index window) {
  require_at_least("sliding", "window", window, 0);
  return filled(N, [=](Index i, Index j) { return std::abs(i - j) <= window; });
}

Mask uni_sliding_mask(Index N, Index window) {
  require_at_least("uni_sliding", "window", window, 0);
  return filled(N, [=](Index i, Index j) { return j <= i && i - j <= window; });
}

Mask prefix_mask(Index N, Index prefix) {
  require_at_least("prefix", "prefix", prefix, 0);
  return filled(N, [=](Index i, Index j) { return j <= i || j < prefix; });
}

Mask star_mask(Index N, Index centre) {
  if (centre < 0 || centre >= N)
    throw InvalidArgument("the centre of a star mask must be one of " + std::to_string(N) + " tokens, found " +
                          std::to_string(centre));
  return filled(N, [=](Index i, Index j) { return j == i || j == centre; });
}

Mask blocks_mask(Index N, Index size) {
  require_at_least("blocks", "size", size, 1);
  return filled(N, [=](Index i, Index j) { return i / size == j / size; });
}

std::vector<std::string_view> mask_kinds() {
  return {"complete", "causal", "sliding", "uni_sliding", "prefix", "star", "blocks"};
}

Mask make_mask(std::string_view kind, Index N, Index size) {
  if (kind == "complete") return complete_mask(N);
  if (kind == "causal") return causal_mask(N);
  if (kind == "sliding") return sliding_mask(N, size);
  if (kind == "uni_sliding") return uni_sliding_mask(N, size);
  if (kind == "prefix") return prefix_mask(N, size);
  if (kind == "star") return star_mask(N, size);
  if (kind == "blocks") return blocks_mask(N, size);
  const std::string close = nearest(kind, mask_kinds());
  throw InvalidArgument("unknown mask '" + std::string(kind) + "', expected " + join(mask_kinds()),
                        close.empty() ? "" : "did you mean '" + close + "'?");
}

Mask without_padding(const Mask& mask, const std::vector<bool>& keep) {
  const Index N = mask.shape()[0];
  if (mask.shape()[1] != N || static_cast<Index>(keep.size()) != N)
    throw InvalidArgument("a mask of " + std::to_string(N) + " by " + std::to_string(mask.shape()[1]) +
                          " tokens cannot lose " + std::to_string(keep.size()) + " entries of padding");
  std::vector<Index> kept;
  for (Index i = 0; i < N; ++i)
    if (keep[static_cast<std::size_t>(i)]) kept.push_back(i);
  return filled(static_cast<Index>(kept.size()), [&](Index i, Index j) {
    return mask(kept[static_cast<std::size_t>(i)], kept[static_cast<std::size_t>(j)]) != 0;
  });
}

Graph graph_of(const Mask& mask) {
  const Index N = mask.shape()[0];
  if (N < 1 || mask.shape()[1] != N)
    throw InvalidArgument("a mask between tokens is square, found " + std::to_string(N) + " by " +
                          std::to_string(mask.shape()[1]));
  const auto followers = followers_of(mask);
  Graph graph;
  graph.strongly_connected = graph.self_loops = true;
  for (Index c = 0; c < N; ++c) {
    const Index e = eccentricity_of(c, followers);
    graph.eccentricity.push_back(e);
    graph.centre.push_back(e >= 0);
    graph.strongly_connected = graph.strongly_connected && e >= 0;
    graph.self_loops = graph.self_loops && mask(c, c) != 0;
    if (e >= 0 && (graph.radius < 0 || e < graph.radius)) graph.radius = e;
  }
  graph.quasi_strongly_connected = graph.radius >= 0;
  graph.nearest_centres =
      graph.radius < 0 ? 0 : std::count(graph.eccentricity.begin(), graph.eccentricity.end(), graph.radius);
  return graph;
}

}  // namespace saddle::analysis::rank_collapse
