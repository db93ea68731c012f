#include "saddle/analysis/causal_discovery/truth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "saddle/analysis/causal_discovery/table.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis::causal_discovery {

namespace {

double share(Index part, Index whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

double Agreement::precision() const { return share(right_edges, edges); }
double Agreement::recall() const { return share(right_edges, true_edges); }
double Agreement::arrow_precision() const { return share(right_arrows, arrows); }
double Agreement::arrow_recall() const { return share(right_arrows, true_arrows); }

TrueEdges parse_truth(std::string_view text, const std::string& file) {
  TrueEdges edges;
  if (text.find("-->") != std::string_view::npos) {
    std::istringstream lines{std::string(text)};
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::vector<std::string> all;
      for (std::string word; words >> word;) all.push_back(std::move(word));
      const auto arrow = std::find(all.begin(), all.end(), "-->");
      if (arrow != all.end() && arrow != all.begin() && arrow + 1 != all.end())
        edges.emplace_back(*(arrow - 1), *(arrow + 1));
    }
  } else {
    const Table table = parse_table(text, file);
    table.require_complete();
    if (table.names.size() < 2)
      throw DataError(file, 1, 1, "a true graph has a column of causes and one of effects, found one column",
                      "write lines such as smoke,bronc under a header, or 1. smoke --> bronc");
    for (Index r = 0; r < table.rows(); ++r)
      edges.emplace_back(table.columns[0][static_cast<std::size_t>(r)], table.columns[1][static_cast<std::size_t>(r)]);
  }
  if (edges.empty()) throw DataError(file, 0, 0, "the true graph has no edges");
  for (const auto& [cause, effect] : edges)
    if (cause == effect)
      throw DataError(file, 0, 0, fmt::format("the true graph says that '{}' causes itself", cause),
                      "leave such edges out: graphs here are between different variables");
  return edges;
}

TrueEdges read_truth(const std::string& file) {
  const auto bytes = read_bytes(file);
  if (!bytes) throw IoError("cannot read the true graph " + file, "is the file there, and readable?");
  return parse_truth(*bytes, file);
}

Agreement compare(const Graph& graph, const std::vector<std::string>& names, const TrueEdges& truth) {
  Agreement found;
  std::set<std::pair<Index, Index>> directed;
  for (const auto& [cause, effect] : truth) {
    const auto a = std::find(names.begin(), names.end(), cause), b = std::find(names.begin(), names.end(), effect);
    if (a == names.end() || b == names.end())
      ++found.skipped;
    else
      directed.emplace(a - names.begin(), b - names.begin());
  }
  if (directed.empty())
    throw InvalidArgument(fmt::format("none of the {} true edges is between nodes of the graph", truth.size()),
                          "the true graph must use the names of the columns");
  found.true_arrows = static_cast<Index>(directed.size());
  found.true_edges = std::count_if(directed.begin(), directed.end(), [&](const auto& edge) {
    return edge.first < edge.second || !directed.contains({edge.second, edge.first});
  });
  for (Index a = 0; a < graph.size(); ++a)
    for (Index b = 0; b < graph.size(); ++b) {
      if (!graph.adjacent(a, b)) continue;
      if (a < b) {
        ++found.edges;
        found.right_edges += directed.contains({a, b}) || directed.contains({b, a}) ? 1 : 0;
      }
      if (graph.mark(a, b) != Mark::arrow) continue;
      ++found.arrows;
      found.right_arrows += directed.contains({a, b}) ? 1 : 0;
    }
  return found;
}

}  // namespace saddle::analysis::causal_discovery
