#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "saddle/analysis/causal_discovery/analyze_internal.hpp"
#include "saddle/analysis/causal_discovery/output.hpp"
#include "saddle/analysis/causal_discovery/request.hpp"
#include "saddle/analysis/causal_discovery/truth.hpp"
#include "saddle/base/error.hpp"
#include "saddle/io/safetensors.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

using Json = nlohmann::ordered_json;

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

std::string names_of(const std::vector<std::string>& names, const Nodes& nodes) {
  std::string text;
  for (const Index node : nodes) text += (text.empty() ? "" : ", ") + names[static_cast<std::size_t>(node)];
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
      "{} of {} pairs are adjacent; directed: {}, with a hidden common cause: {}; tests: {}", edges,
      graph.size() * (graph.size() - 1) / 2, directed, hidden, std::accumulate(tests.begin(), tests.end(), Index{0}))};
  if (const std::vector<Index> cycle = graph.directed_cycle(); !cycle.empty()) {
    std::string text;
    for (const Index node : cycle) text += answer.input.names[static_cast<std::size_t>(node)] + " -> ";
    list.push_back(
        fmt::format("{}{} is a cycle, which no causal graph has: here tests contradict each other, so do not "
                    "trust these directions",
                    text, answer.input.names[static_cast<std::size_t>(cycle.front())]));
  }
  if (answer.explanations)
    list.push_back(fmt::format("{} may depend on {}", answer.input.names[static_cast<std::size_t>(*answer.target)],
                               answer.explanations->members.empty()
                                   ? "nothing else"
                                   : names_of(answer.input.names, answer.explanations->members)));
  list.insert(list.end(), answer.input.notes.begin(), answer.input.notes.end());
  return list;
}

double edge_count(const Graph& graph) {
  double count = 0;
  for (Index a = 0; a < graph.size(); ++a) count += static_cast<double>(graph.degree(a)) / 2;
  return count;
}

std::string share_text(double value) { return std::isnan(value) ? "none found" : fmt::format("{:.3f}", value); }
Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

void add_truth(const Answer& answer, const std::string& file, Result& result, Json& document) {
  const Agreement found = compare(answer.discovery.graph, answer.input.names, read_truth(file));
  analysis::Table table{
      fmt::format("Beside the true graph, {}", file), {"", "true", "found", "right", "precision", "recall"}, {}};
  const auto add = [&](const char* what, Index truly, Index all, Index right, double precision, double recall) {
    table.rows.push_back({what, std::to_string(truly), std::to_string(all), std::to_string(right),
                          share_text(precision), share_text(recall)});
  };
  add("edges of the skeleton", found.true_edges, found.edges, found.right_edges, found.precision(), found.recall());
  add("arrowheads", found.true_arrows, found.arrows, found.right_arrows, found.arrow_precision(), found.arrow_recall());
  result.tables.insert(result.tables.begin(), std::move(table));
  if (found.skipped > 0)
    result.findings.push_back(fmt::format("true edges of variables that are not here, left out: {}", found.skipped));
  result.figures = {{"precision of the skeleton", found.precision()},
                    {"recall of the skeleton", found.recall()},
                    {"precision of arrowheads", found.arrow_precision()},
                    {"recall of arrowheads", found.arrow_recall()}};
  document["truth"] = {{"file", file},
                       {"edges", found.true_edges},
                       {"skeleton_precision", number_or_null(found.precision())},
                       {"skeleton_recall", number_or_null(found.recall())},
                       {"arrow_precision", number_or_null(found.arrow_precision())},
                       {"arrow_recall", number_or_null(found.arrow_recall())}};
}

Index below(Index value, Index bound, const char* what) {
  if (value < 0 || value >= bound)
    throw InvalidArgument(fmt::format("{} {} does not exist, there are 0 to {}", what, value, bound - 1));
  return value;
}

Chosen choose(const ProbedModel& model, analysis::Options& options, bool all_samples) {
  const std::string split = options.text("split", "test"), sample = options.text("sample", "0");
  const Index layer = options.integer("layer", -1), head = options.integer("head", -1);
  const bool every = all_samples && sample == "all";
  const Index number = every ? 0 : options.integer("sample", 0);
  options.check();
  Chosen chosen{};
  chosen.probe = &model.probe(split);
  if (chosen.probe->layers.empty()) throw InvalidArgument("causal_discovery: the model has no layers");
  const auto layers = static_cast<Index>(chosen.probe->layers.size());
  chosen.at = layer < 0 ? layers - 1 : below(layer, layers, "layer");
  chosen.layer = &chosen.probe->layers[static_cast<std::size_t>(chosen.at)];
  chosen.weights = token_weights(*chosen.probe, *chosen.layer);
  if (chosen.weights.empty())
    throw NotSupported(
        fmt::format("layer {} ({}) has no weights between token and token", chosen.at, chosen.layer->attention), {},
        "causal discovery reads attention that shows its weights, such as softmax");
  const Index B = chosen.weights.shape()[0], H = chosen.weights.shape()[1];
  for (Index b = every ? 0 : below(number, B, "sample"); b < (every ? B : number + 1); ++b) chosen.samples.push_back(b);
  for (Index h = head < 0 ? 0 : below(head, H, "head"); h < (head < 0 ? H : head + 1); ++h) chosen.heads.push_back(h);
  return chosen;
}

Result result_of(const Answer& answer, const std::string& truth) {
  Result result;
  result.about = about;
  result.findings = findings(answer);
  result.findings.push_back(settings_text(answer));
  result.figures = {{"edges", edge_count(answer.discovery.graph)}};
  result.networks.push_back(to_network(answer, "Graph", "graph.dot"));
  result.tables.push_back(edge_table(answer, "Edges"));
  result.files.emplace_back("graph.dot", answer.dot);
  result.json = answer.json;
  if (!truth.empty()) {
    Json document = Json::parse(answer.json);
    add_truth(answer, truth, result, document);
    result.json = document.dump();
  }
  return result;
}

// Of the tokens that the attention looks at; a last block may make them narrower.
double width_of(const Chosen& chosen) {
  const ProbedLayer& layer = *chosen.layer;
  const auto& before =
      chosen.at == 0 ? chosen.probe->tokens : chosen.probe->layers[static_cast<std::size_t>(chosen.at - 1)].tokens;
  for (const auto* tokens : {&before, &layer.tokens})
    if (!tokens->empty()) return static_cast<double>(tokens->shape()[2]);
  if (!layer.heads.empty()) return static_cast<double>(layer.heads.shape()[1] * layer.heads.shape()[3]);
  throw InvalidArgument("Fisher's z needs the number of samples behind the correlations",
                        "set samples; for attention it is the width of the model, for example 768");
}

}  // namespace

Result on_file(const std::string& file, analysis::Options& options) {
  if (file.ends_with(".safetensors")) return on_tensors(io::read_safetensors(file), file, options);
  Request request = common_request(options);
  request.file = file;
  request.test = parse_test(options.text("test", "auto"));
  request.logarithm = options.flag("log", false);
  request.rows = options.integer("rows", 0);
  const std::string missing = options.text("missing", "error");
  if (missing != "error" && missing != "drop")
    throw InvalidArgument(fmt::format("option 'missing' takes error or drop, found '{}'", missing));
  request.drop_missing = missing == "drop";
  const std::string truth = options.text("truth", "");
  options.check();
  return result_of(discover(request), truth);
}

Result on_tensors(const TensorFile& file, const std::string& name, analysis::Options& options) {
  const std::string tensor = options.text("tensor", "");
  if (tensor.empty() && !matrix_name(file)) return on_model(probed_model(file, name), options);
  Request request = common_request(options);
  request.file = name;
  request.tensor = tensor;
  request.values = options.text("values", "");
  request.batch = options.integer("batch", 0);
  request.head = options.integer("head", 0);
  const std::string truth = options.text("truth", "");
  options.check();
  return result_of(discover(tensor_input(file, request), request), truth);
}

Result on_model(const ProbedModel& model, analysis::Options& options) {
  Request request = common_request(options);
  const bool explaining = options.flag("explain", false);
  ModelExplainOptions own;
  if (explaining) {
    const std::string removal = options.text("removal", "pad");
    if (removal != "pad" && removal != "close")
      throw InvalidArgument(fmt::format("option 'removal' takes pad or close, found '{}'", removal));
    own.removal = removal == "pad" ? Removal::pad : Removal::close;
    own.max_calls = options.integer("max_calls", own.max_calls);
    if (own.max_calls < 1)
      throw InvalidArgument(fmt::format("option 'max_calls' must be at least 1, found {}", own.max_calls));
  }
  const Chosen chosen = choose(model, options, explaining);
  if (request.samples == 0) request.samples = width_of(chosen);
  if (explaining) return explain_model(model, std::move(request), own, chosen);

  const Index b = chosen.samples.front();
  Result result;
  result.about = about;
  auto document = Json{{"model", model.name},        {"split", chosen.probe->split},
                       {"layer", chosen.at},         {"attention", chosen.layer->attention},
                       {"sample", chosen.number(b)}, {"heads", Json::array()}};
  double edges = 0;
  std::string settings;
  result.findings.push_back(fmt::format("This is sample {} of the {} split in layer {} ({}).", chosen.number(b),
                                        chosen.probe->split, chosen.at, chosen.layer->attention));
  for (const Index h : chosen.heads) {
    request.file = fmt::format("layer {}, head {}", chosen.at, h);
    const Answer answer = discover(attention_input(chosen.attention(b, h), chosen.names(b), request), request);
    for (const std::string& sentence : findings(answer))
      result.findings.push_back(fmt::format("head {}: {}", h, sentence));
    settings = settings_text(answer);
    const std::string dot = fmt::format("layer{}_head{}.dot", chosen.at, h);
    result.networks.push_back(to_network(answer, fmt::format("Graph of {}", request.file), dot));
    result.tables.push_back(edge_table(answer, fmt::format("Edges of {}", request.file)));
    result.files.emplace_back(dot, answer.dot);
    document["heads"].push_back(Json::parse(answer.json));
    edges += edge_count(answer.discovery.graph) / static_cast<double>(chosen.heads.size());
  }
  result.findings.push_back(settings);  // the same for all heads
  result.figures = {{"edges of a head", edges}};
  result.json = document.dump();
  return result;
}

}  // namespace saddle::analysis::causal_discovery
