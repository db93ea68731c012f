#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "saddle/analysis/causal_discovery/analyze_internal.hpp"
#include "saddle/analysis/causal_discovery/output.hpp"
#include "saddle/analysis/causal_discovery/request.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

constexpr const char* about =
    "An edge joins two nodes that no set of the others makes independent; arrows point at effects, circles leave open "
    "which end is the effect, arrows at both ends stand for a hidden common cause. A good graph is sparse and keeps "
    "its shape when alpha moves between 0.01 and 0.05; one that is nearly complete, or all circles, tells little.";

// What files and models have in common.
Request common_request(analysis::Options& options) {
  Request request;
  request.algorithm = parse_algorithm(options.text("algorithm", "icd"));
  request.options.alpha = options.number("alpha", request.options.alpha);
  request.options.stable = options.flag("stable", false);
  request.options.selection_bias = options.flag("selection_bias", true);
  request.options.tail_completeness = options.flag("tail_completeness", true);
  request.options.strict_r10 = options.flag("strict_r10", false);
  request.options.max_size = options.integer("max_size", -1);
  request.samples = options.number("samples", 0);
  request.nodes = options.list("nodes");
  if (const std::string target = options.text("target", ""); !target.empty()) request.target = target;
  request.explain.max_set_size = options.integer("max_set_size", -1);
  request.explain.max_range = options.integer("max_range", -1);
  return request;
}

std::string names_of(const Answer& answer, const Nodes& nodes) {
  std::string text;
  for (const Index node : nodes)
    text += (text.empty() ? "" : ", ") + answer.input.names[static_cast<std::size_t>(node)];
  return text;
}

analysis::Table edge_table(const Answer& answer, const std::string& title) {
  analysis::Table table{title, {"node", "edge", "node"}, {}};
  const Graph& graph = answer.discovery.graph;
  for (Index a = 0; a < graph.size(); ++a)
    for (Index b = a + 1; b < graph.size(); ++b)
      if (graph.adjacent(a, b))
        table.rows.push_back({answer.input.names[static_cast<std::size_t>(a)], edge_text(graph, a, b),
                              answer.input.names[static_cast<std::size_t>(b)]});
  return table;
}

// Sentences on one graph.
std::vector<std::string> findings(const Answer& answer) {
  const Graph& graph = answer.discovery.graph;
  Index edges = 0, directed = 0, hidden = 0;
  for (Index a = 0; a < graph.size(); ++a)
    for (Index b = a + 1; b < graph.size(); ++b) {
      edges += graph.adjacent(a, b) ? 1 : 0;
      directed += graph.parent(a, b) || graph.parent(b, a) ? 1 : 0;
      hidden += graph.has(a, Mark::arrow, Mark::arrow, b) ? 1 : 0;
    }
  const auto& tests = answer.discovery.tests;
  std::vector<std::string> list{fmt::format(
      "{} of {} pairs are adjacent: {} edges are directed, {} have a hidden common cause; {} tests", edges,
      graph.size() * (graph.size() - 1) / 2, directed, hidden, std::accumulate(tests.begin(), tests.end(), Index{0}))};
  if (answer.explanations)
    list.push_back(fmt::format(
        "{} may depend on {}", answer.input.names[static_cast<std::size_t>(*answer.target)],
        answer.explanations->members.empty() ? "nothing else" : names_of(answer, answer.explanations->members)));
  list.insert(list.end(), answer.input.notes.begin(), answer.input.notes.end());
  return list;
}

// Sample b and head h of the weights, as far as the sample has tokens.
Matrix head_weights(const Array<double, 4>& weights, Index b, Index h, Index length) {
  Matrix attention({length, length});
  for (Index i = 0; i < length; ++i)
    for (Index j = 0; j < length; ++j) attention(i, j) = weights(b, h, i, j);
  return attention;
}

Index below(Index value, Index bound, const char* what) {
  if (value < 0 || value >= bound)
    throw InvalidArgument(fmt::format("{} {} does not exist, there are 0 to {}", what, value, bound - 1));
  return value;
}

}  // namespace

Result on_file(const std::string& file, analysis::Options& options) {
  Request request = common_request(options);
  request.file = file;
  request.test = parse_test(options.text("test", "auto"));
  request.logarithm = options.flag("log", false);
  request.tensor = options.text("tensor", "");
  request.values = options.text("values", "");
  request.batch = options.integer("batch", 0);
  request.head = options.integer("head", 0);
  options.check();
  const Answer answer = discover(request);
  Result result;
  result.about = about;
  result.findings = findings(answer);
  result.tables.push_back(edge_table(answer, "Edges"));
  result.files.emplace_back("graph.dot", answer.dot);
  result.json = answer.json;
  return result;
}

Result on_model(const ProbedModel& model, analysis::Options& options) {
  Request request = common_request(options);
  const std::string split = options.text("split", "test");
  const Index layer = options.integer("layer", -1), head = options.integer("head", -1);
  const Index sample = options.integer("sample", 0);
  options.check();
  const auto probe =
      std::find_if(model.probes.begin(), model.probes.end(), [&](const Probe& each) { return each.split == split; });
  if (probe == model.probes.end() || probe->layers.empty())
    throw InvalidArgument(fmt::format("the model was not probed on the split '{}'", split));
  const auto layers = static_cast<Index>(probe->layers.size());
  const Index at = layer < 0 ? layers - 1 : below(layer, layers, "layer");
  const ProbedLayer& own = probe->layers[static_cast<std::size_t>(at)];
  if (own.weights.empty() || own.weights.shape()[2] != own.weights.shape()[3])
    throw NotSupported(fmt::format("layer {} ({}) has no weights between token and token", at, own.attention), {},
                       "causal discovery reads attention with one key per token, such as softmax");
  const Index b = below(sample, own.weights.shape()[0], "sample"), heads = own.weights.shape()[1];
  const Index length = probe->lengths[static_cast<std::size_t>(b)];
  if (!(request.samples > 0)) request.samples = static_cast<double>(own.tokens.shape()[2]);

  Result result;
  result.about = about;
  auto document = nlohmann::ordered_json{{"model", model.name}, {"split", split},
                                         {"layer", at},         {"attention", own.attention},
                                         {"sample", sample},    {"heads", nlohmann::ordered_json::array()}};
  for (Index h = head < 0 ? 0 : below(head, heads, "head"); h < (head < 0 ? heads : head + 1); ++h) {
    request.file = fmt::format("layer {}, head {}", at, h);
    const Answer answer = discover(attention_input(head_weights(own.weights, b, h, length), {}, request), request);
    for (const std::string& sentence : findings(answer))
      result.findings.push_back(fmt::format("head {}: {}", h, sentence));
    result.tables.push_back(edge_table(answer, fmt::format("Edges of {}", request.file)));
    result.files.emplace_back(fmt::format("layer{}_head{}.dot", at, h), answer.dot);
    document["heads"].push_back(nlohmann::ordered_json::parse(answer.json));
  }
  result.json = document.dump();
  return result;
}

}  // namespace saddle::analysis::causal_discovery
