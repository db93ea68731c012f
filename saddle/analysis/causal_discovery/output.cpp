#include "saddle/analysis/causal_discovery/output.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>

namespace saddle::analysis::causal_discovery {

namespace {

using Json = nlohmann::ordered_json;

std::string quoted(const std::string& name) {
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    text += c == '\n' ? ' ' : c;
  }
  return text + '"';
}

std::string_view arrow_shape(Mark mark) {
  return mark == Mark::arrow ? "normal" : mark == Mark::circle ? "odot" : "none";
}

Json edges(const Graph& graph) {
  Json list = Json::array();
  for (Index a = 0; a < graph.size(); ++a)
    for (Index b = a + 1; b < graph.size(); ++b)
      if (graph.adjacent(a, b))
        list.push_back({{"a", a},
                        {"b", b},
                        {"mark_a", to_string(graph.mark(b, a))},
                        {"mark_b", to_string(graph.mark(a, b))},
                        {"edge", edge_text(graph, a, b)}});
  return list;
}

Json separating_sets(const Discovery& discovery) {
  Json list = Json::array();
  const Graph& graph = discovery.graph;
  for (Index a = 0; a < graph.size(); ++a)
    for (Index b = a + 1; b < graph.size(); ++b)
      if (!graph.adjacent(a, b)) list.push_back({{"a", a}, {"b", b}, {"given", discovery.separating.at(a, b)}});
  return list;
}

const char* test_name(const IndependenceTest& test) {
  return std::holds_alternative<FisherZ>(test)     ? "fisher_z"
         : std::holds_alternative<ChiSquare>(test) ? "chi_square"
                                                   : "d_separation";
}

Json token_sets(const std::vector<TokenSet>& sets) {
  Json list = Json::array();
  for (const TokenSet& set : sets) list.push_back({{"tokens", set.tokens}, {"distance", set.distance}});
  return list;
}

Json explanations(const Explanations& found, Index target) {
  Json tree = Json::array();
  for (const auto& vertex : found.tree.vertices)
    tree.push_back({{"node", vertex.node}, {"parent", vertex.parent}, {"depth", vertex.depth}});
  return {{"target", target},
          {"members", found.members},
          {"found", token_sets(found.found)},
          {"tested", found.candidates.size()},
          {"tree", std::move(tree)}};
}

}  // namespace

std::string_view to_string(Mark mark) {
  switch (mark) {
    case Mark::none: return "none";
    case Mark::circle: return "circle";
    case Mark::arrow: return "arrow";
    case Mark::tail: return "tail";
  }
  return "";
}

std::string edge_text(const Graph& graph, Index a, Index b) {
  const auto end = [](Mark mark, char head) { return mark == Mark::arrow ? head : mark == Mark::circle ? 'o' : '-'; };
  return {end(graph.mark(b, a), '<'), '-', end(graph.mark(a, b), '>')};
}

std::string to_dot(const Graph& graph, const std::vector<std::string>& names, std::optional<Index> target) {
  std::string text = "digraph causal {\n  node [shape=ellipse];\n  edge [dir=both];\n";
  for (Index v = 0; v < graph.size(); ++v)
    text += fmt::format("  n{} [label={}{}];\n", v, quoted(names[static_cast<std::size_t>(v)]),
                        target == v ? ", peripheries=2" : "");
  for (Index a = 0; a < graph.size(); ++a)
    for (Index b = a + 1; b < graph.size(); ++b) {
      if (!graph.adjacent(a, b)) continue;
      // Arrows point down the page where they point one way.
      const bool turned = graph.mark(b, a) == Mark::arrow && graph.mark(a, b) != Mark::arrow;
      const Index from = turned ? b : a, to = turned ? a : b;
      text += fmt::format("  n{} -> n{} [arrowtail={}, arrowhead={}];\n", from, to, arrow_shape(graph.mark(to, from)),
                          arrow_shape(graph.mark(from, to)));
    }
  return text + "}\n";
}

Network to_network(const Answer& answer, const std::string& title, const std::string& file, const Nodes& marked) {
  const auto end = [](Mark mark) {
    return mark == Mark::arrow ? Network::End::arrow : mark == Mark::circle ? Network::End::circle : Network::End::line;
  };
  Network network{title, answer.input.names, {}, marked, file};
  if (answer.target) network.marked.push_back(*answer.target);
  const Graph& graph = answer.discovery.graph;
  for (Index a = 0; a < graph.size(); ++a)
    for (Index b = a + 1; b < graph.size(); ++b)
      if (graph.adjacent(a, b)) network.edges.push_back({a, b, end(graph.mark(b, a)), end(graph.mark(a, b))});
  return network;
}

std::string settings_text(const Answer& answer) {
  std::string text = fmt::format("algorithm: {}, test: {}, alpha: {}", to_string(answer.request.algorithm),
                                 test_name(answer.input.test), answer.request.options.alpha);
  if (const auto* z = std::get_if<FisherZ>(&answer.input.test)) text += fmt::format(", n: {}", z->samples());
  if (const auto* chi = std::get_if<ChiSquare>(&answer.input.test)) text += fmt::format(", n: {}", chi->samples());
  return text;
}

std::string to_json(const Answer& answer) {
  const Request& request = answer.request;
  const Discovery& discovery = answer.discovery;
  Json nodes = Json::array();
  for (std::size_t v = 0; v < answer.input.names.size(); ++v)
    nodes.push_back({{"name", answer.input.names[v]}, {"position", answer.input.positions[v]}});
  Json json{{"analysis", "causal_discovery"},
            {"file", request.file},
            {"algorithm", to_string(request.algorithm)},
            {"test", test_name(answer.input.test)},
            {"alpha", request.options.alpha},
            {"stable", request.options.stable},
            {"graph", request.algorithm == Algorithm::pc ? "cpdag" : "pag"},
            {"nodes", std::move(nodes)},
            {"edges", edges(discovery.graph)},
            {"separating_sets", separating_sets(discovery)},
            {"tests", discovery.tests},
            {"tests_total", std::accumulate(discovery.tests.begin(), discovery.tests.end(), Index{0})}};
  if (const auto* z = std::get_if<FisherZ>(&answer.input.test)) json["samples"] = z->samples();
  if (const auto* chi = std::get_if<ChiSquare>(&answer.input.test)) json["samples"] = chi->samples();
  if (!discovery.rounds.empty()) {
    Json rounds = Json::array();
    for (const Graph& graph : discovery.rounds) rounds.push_back(edges(graph));
    json["rounds"] = std::move(rounds);
  }
  if (answer.explanations) json["explanations"] = explanations(*answer.explanations, *answer.target);
  if (!answer.input.notes.empty()) json["notes"] = answer.input.notes;
  // Names come from files: what is not UTF-8 is replaced rather than refused.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace saddle::analysis::causal_discovery
