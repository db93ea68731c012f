#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "saddle/analysis/causal_discovery/model_explanations_internal.hpp"
#include "saddle/analysis/causal_discovery/subset_search_internal.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

constexpr std::size_t together = 256;

Index largest(const Matrix& probabilities, Index row) {
  Index best = 0;
  for (Index c = 1; c < probabilities.shape()[1]; ++c)
    if (probabilities(row, c) > probabilities(row, best)) best = c;
  return best;
}

// One more token each time, in falling order of `weight`.
SearchResult search_by_weight(const Nodes& tokens, const std::vector<double>& weight, Judge& judge) {
  Nodes order = tokens;
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) {
    return weight[static_cast<std::size_t>(a)] > weight[static_cast<std::size_t>(b)];
  });
  SearchResult search;
  Nodes removed;
  for (const Index token : order) {
    removed.insert(std::upper_bound(removed.begin(), removed.end(), token), token);
    ++search.calls;
    const Index now = judge.without(removed);
    if (now == judge.predicted()) continue;
    search.found = true;
    search.tokens = removed;
    search.becomes = now;
    break;
  }
  return search;
}

}  // namespace

Judge::Judge(const Probe& probe, Index sample, Removal removal) : probe_(probe), sample_(sample), removal_(removal) {
  if (!probe.ask)
    throw NotSupported(
        "explanations need a model that can be asked again, on inputs made of steps or tokens", {},
        "give the folder of a run on series, token sequences or tables read row by row, not of --model npt");
  const Matrix whole = probe.ask(sample, {{}}, removal);
  predicted_ = largest(whole, 0);
  probability_ = whole(0, predicted_);
}

Index Judge::without(const Nodes& tokens) {
  const auto found = known_.find(tokens);
  if (found != known_.end()) return found->second;
  return known_[tokens] = largest(probe_.ask(sample_, {tokens}, removal_), 0);
}

void Judge::prepare(const std::vector<Nodes>& sets) {
  std::vector<std::vector<Index>> open;
  for (const Nodes& set : sets)
    if (!known_.contains(set)) open.push_back(set);
  if (open.empty()) return;
  const Matrix answers = probe_.ask(sample_, open, removal_);
  for (std::size_t s = 0; s < open.size(); ++s) known_[open[s]] = largest(answers, static_cast<Index>(s));
}

Matrix with_readout(const Matrix& attention) {
  const Index N = attention.shape()[0];
  Matrix whole({N + 1, N + 1});
  const double own = 1 / static_cast<double>(N + 1);
  for (Index i = 0; i < N; ++i)
    for (Index j = 0; j < N; ++j) {
      whole(i, j) = attention(i, j);
      whole(N, j) += own * attention(i, j);  // (N / (N + 1)) times the mean
    }
  whole(N, N) = own;
  return whole;
}

ModelExplanation explain_head(const Matrix& attention, std::vector<std::string> names, Index head, const Request& given,
                              Judge& judge, const ModelExplainOptions& options) {
  Request request = given;
  const Index N = attention.shape()[0];
  const bool readout = !request.target;
  Matrix seen = readout ? with_readout(attention) : attention;
  if (names.empty())
    for (Index i = 0; i < N; ++i) names.push_back(std::to_string(i));
  if (readout) {
    names.emplace_back("prediction");
    request.target = "prediction";
    if (!request.nodes.empty()) request.nodes.emplace_back("prediction");
  }
  Input input = attention_input(seen, std::move(names), request);
  const Nodes positions = input.positions;
  const auto tokens_of = [&](const Nodes& nodes) {
    Nodes tokens;
    for (const Index node : nodes) tokens.push_back(positions[static_cast<std::size_t>(node)]);
    return tokens;
  };
  SearchResult search;
  const IsExplanation judged = [&](const Nodes& nodes, Index) {
    const Nodes tokens = tokens_of(nodes);
    ++search.calls;
    const Index now = judge.without(tokens);
    if (now == judge.predicted()) return false;
    if (!search.found) {
      search.found = true;
      search.tokens = tokens;
      search.becomes = now;
    }
    return true;
  };
  request.explain.max_judged = options.max_calls;
  request.explain.prepare = [&](const std::vector<Nodes>& sets) {
    std::vector<Nodes> asked;
    for (const Nodes& nodes : sets) asked.push_back(tokens_of(nodes));
    judge.prepare(asked);
  };
  Answer answer = discover(std::move(input), request, judged);
  answer.request = given;  // what it refers to ends here

  const Index target = positions[static_cast<std::size_t>(*answer.target)];
  std::vector<double> weight(static_cast<std::size_t>(seen.shape()[1]));
  Nodes others;
  for (Index j = 0; j < seen.shape()[1]; ++j) weight[static_cast<std::size_t>(j)] = seen(target, j);
  for (const Index position : positions)
    if (position != target && position < N) others.push_back(position);
  SearchResult by_weight = search_by_weight(others, weight, judge);
  return {head, std::move(answer), std::move(search), std::move(by_weight), std::move(others)};
}

SearchResult search_exhaustively(const Nodes& tokens, Judge& judge, const ModelExplainOptions& options) {
  const auto length = static_cast<Index>(tokens.size());
  SearchResult search;
  for (Index size = 1; size <= length && !search.found; ++size) {
    Nodes set(static_cast<std::size_t>(size));
    std::iota(set.begin(), set.end(), Index{0});
    std::vector<Nodes> waiting;
    bool more = true;
    while (more) {
      Nodes& next = waiting.emplace_back();
      for (const Index place : set) next.push_back(tokens[static_cast<std::size_t>(place)]);
      more = next_subset(set, length);
      const bool last = search.calls + static_cast<Index>(waiting.size()) >= options.max_calls;
      if (more && !last && waiting.size() < together) continue;
      judge.prepare(waiting);
      for (const Nodes& each : waiting) {
        ++search.calls;
        const Index now = judge.without(each);
        if (search.found || now == judge.predicted()) continue;
        search.found = true;
        search.tokens = each;
        search.becomes = now;
      }
      waiting.clear();
      if (!more) search.tried = size;
      if (last) return search;
    }
  }
  return search;
}

}  // namespace saddle::analysis::causal_discovery
