#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "saddle/analysis/causal_discovery/analyze_internal.hpp"
#include "saddle/analysis/causal_discovery/output.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* about =
    "Sets of steps without which the model predicts another class, looked for along the causal graph of each head "
    "(CLEANN), in the order of attention weights, and by trying all sets. A good explanation is small and found with "
    "few questions to the model; where the graph finds none, or only what the order of weights finds too, it adds "
    "nothing.";

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

// Of one way to search, over heads and samples.
struct Tally {
  const char* name;
  Index asked = 0, found = 0;
  double size = 0, calls = 0;

  void add(const SearchResult& search) {
    ++asked;
    calls += static_cast<double>(search.calls);
    if (!search.found) return;
    ++found;
    size += static_cast<double>(search.tokens.size());
  }
  double mean_size() const { return found > 0 ? size / static_cast<double>(found) : std::nan(""); }
  double mean_calls() const { return asked > 0 ? calls / static_cast<double>(asked) : 0; }
};

std::string class_name(const ProbedModel& model, Index label) {
  const auto at = static_cast<std::size_t>(label);
  return label >= 0 && at < model.classes.size() ? model.classes[at] : std::to_string(label);
}

std::string set_text(const SearchResult& search, const std::vector<std::string>& names) {
  if (!search.found) return "none";
  std::string text;
  for (const Index token : search.tokens)
    text +=
        (text.empty() ? "" : ", ") + (names.empty() ? std::to_string(token) : names[static_cast<std::size_t>(token)]);
  return text;
}

// Whether the graph of a head offers anything at all.
bool has_neighbours(const Answer& answer) {
  const Graph& graph = answer.discovery.graph;
  for (Index v = 0; v < graph.size(); ++v)
    if (v != *answer.target && graph.adjacent(v, *answer.target)) return true;
  return false;
}

// Predictions that no way of searching explained.
struct Unexplained {
  Index count = 0;
  Index tried = 0;    // all sets of up to so many steps were tried for each of them
  bool whole = true;  // all sets were

  void add(const SearchResult& all, std::size_t candidates) {
    tried = count == 0 ? all.tried : std::min(tried, all.tried);
    whole = whole && all.tried == static_cast<Index>(candidates);
    ++count;
  }
  std::string text(Index predictions, Index max_calls) const {
    const std::string searched =
        whole        ? "all sets of steps were tried"
        : tried == 0 ? fmt::format("{} questions did not reach all single steps", max_calls)
                     : fmt::format("all sets of up to {} step{} were tried, of larger ones what {} questions reach",
                                   tried, tried == 1 ? "" : "s", max_calls);
    return fmt::format("No search explained {} of {} predictions: {}.", count, predictions, searched);
  }
};

Json json_of(const SearchResult& search) {
  return {{"found", search.found}, {"tokens", search.tokens}, {"calls", search.calls}, {"becomes", search.becomes}};
}

}  // namespace

Result explain_model(const ProbedModel& model, Request request, const ModelExplainOptions& own, const Chosen& chosen) {
  Result result;
  result.about = about;
  analysis::Table each{"Explanations",
                       {"sample", "class", "head", "by the graph", "becomes", "calls", "by weight: size", "calls",
                        "all sets: size", "calls"},
                       {}};
  Tally graph{"the causal graph (CLEANN), each head"}, best{"the causal graph, all heads, smallest set"},
      weight{"order of attention weights, each head"}, all{"all sets"};
  Index both = 0, smaller = 0, larger = 0, alone = 0;
  Unexplained unexplained;
  Json samples = Json::array();
  const bool one = chosen.samples.size() == 1;
  std::string settings;  // the same for all
  for (const Index b : chosen.samples) {
    Judge judge(*chosen.probe, b, own.removal);
    const auto names = chosen.names(b);
    std::vector<ModelExplanation> of_heads;
    std::set<Index> candidates;  // of any head
    for (const Index h : chosen.heads) {
      request.file = fmt::format("layer {}, head {}", chosen.at, h);
      of_heads.push_back(explain_head(chosen.attention(b, h), names, h, request, judge, own));
      candidates.insert(of_heads.back().candidates.begin(), of_heads.back().candidates.end());
    }
    const SearchResult exhaustive = search_exhaustively({candidates.begin(), candidates.end()}, judge, own);
    all.add(exhaustive);
    bool explained = exhaustive.found;
    SearchResult smallest;
    Json heads = Json::array();
    for (const ModelExplanation& found : of_heads) {
      const Index h = found.head;
      settings = settings_text(found.answer);
      graph.add(found.by_graph);
      weight.add(found.by_weight);
      explained = explained || found.by_graph.found || found.by_weight.found;
      alone += has_neighbours(found.answer) ? 0 : 1;
      smallest.calls += found.by_graph.calls;
      if (found.by_graph.found && (!smallest.found || found.by_graph.tokens.size() < smallest.tokens.size())) {
        smallest.found = true;
        smallest.tokens = found.by_graph.tokens;
      }
      if (found.by_graph.found && found.by_weight.found) {
        ++both;
        smaller += found.by_graph.tokens.size() < found.by_weight.tokens.size() ? 1 : 0;
        larger += found.by_graph.tokens.size() > found.by_weight.tokens.size() ? 1 : 0;
      }
      const auto size = [](const SearchResult& search) {
        return search.found ? std::to_string(search.tokens.size()) : std::string("none");
      };
      each.rows.push_back({std::to_string(chosen.number(b)), class_name(model, judge.predicted()), std::to_string(h),
                           set_text(found.by_graph, names),
                           found.by_graph.found ? class_name(model, found.by_graph.becomes) : "",
                           std::to_string(found.by_graph.calls), size(found.by_weight),
                           std::to_string(found.by_weight.calls), size(exhaustive), std::to_string(exhaustive.calls)});
      heads.push_back({{"head", h},
                       {"by_graph", json_of(found.by_graph)},
                       {"by_weight", json_of(found.by_weight)},
                       {"graph", Json::parse(found.answer.json)}});
      if (one) {
        Nodes marked;
        for (std::size_t v = 0; v < found.answer.input.positions.size(); ++v)
          if (std::find(found.by_graph.tokens.begin(), found.by_graph.tokens.end(), found.answer.input.positions[v]) !=
              found.by_graph.tokens.end())
            marked.push_back(static_cast<Index>(v));
        const std::string dot = fmt::format("layer{}_head{}.dot", chosen.at, h);
        result.networks.push_back(to_network(found.answer,
                                             fmt::format("Graph of {}, prediction{} marked", found.answer.request.file,
                                                         found.by_graph.found ? " and explanation" : ""),
                                             dot, marked));
        result.files.emplace_back(dot, found.answer.dot);
      }
    }
    if (!explained) unexplained.add(exhaustive, candidates.size());
    best.add(smallest);
    Json all_sets = json_of(exhaustive);
    all_sets["tried"] = exhaustive.tried;
    samples.push_back({{"sample", chosen.number(b)},
                       {"predicted", judge.predicted()},
                       {"probability", judge.probability()},
                       {"all_sets", all_sets},
                       {"heads", heads}});
  }
  analysis::Table summary{"Ways to search", {"way", "explained", "mean size", "mean calls"}, {}};
  Json ways = Json::array();
  for (const Tally* tally : {&graph, &best, &weight, &all}) {
    summary.rows.push_back({tally->name, fmt::format("{} of {}", tally->found, tally->asked),
                            tally->found > 0 ? fmt::format("{:.2f}", tally->mean_size()) : "none",
                            fmt::format("{:.1f}", tally->mean_calls())});
    ways.push_back({{"way", tally->name},
                    {"asked", tally->asked},
                    {"explained", tally->found},
                    {"mean_size", number_or_null(tally->mean_size())},
                    {"mean_calls", tally->mean_calls()}});
  }
  if (both > 0)
    result.findings.push_back(fmt::format(
        "Where both find one, the set of the graph is smaller than that of the order of weights in {} of {} "
        "cases and larger in {}.",
        smaller, both, larger));
  if (unexplained.count > 0) result.findings.push_back(unexplained.text(all.asked, own.max_calls));
  if (alone > 0)
    result.findings.push_back(fmt::format(
        "In {} of {} graphs the prediction has no neighbour: there the graph offers no set.", alone, graph.asked));
  result.findings.push_back(settings);
  result.tables = {std::move(summary), std::move(each)};
  result.figures = {{"explained by the graph", static_cast<double>(graph.found) / static_cast<double>(graph.asked)},
                    {"size, by the graph", graph.mean_size()},
                    {"calls, by the graph", graph.mean_calls()},
                    {"size, by weight", weight.mean_size()},
                    {"calls, by weight", weight.mean_calls()}};
  result.json = Json{
      {"model", model.name},
      {"split", chosen.probe->split},
      {"layer", chosen.at},
      {"attention", chosen.layer->attention},
      {"removal", own.removal == Removal::pad ? "pad" : "close"},
      {"ways", ways},
      {"samples",
       samples}}.dump();
  return result;
}

}  // namespace saddle::analysis::causal_discovery
