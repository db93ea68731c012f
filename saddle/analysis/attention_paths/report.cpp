#include "saddle/analysis/attention_paths/report_internal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace saddle::analysis::attention_paths {

namespace {

using Json = nlohmann::ordered_json;

constexpr Index shown_paths = 3;
constexpr Index largest_kernel = 256;  // examples up to which kernels are written down

std::vector<Index> heads_of(Index path, const std::vector<Index>& heads) {
  std::vector<Index> own(heads.size());
  for (std::size_t l = heads.size(); l-- > 0; path /= heads[l]) own[l] = path % heads[l];
  return own;
}

std::string path_name(Index path, const std::vector<Index>& heads) {
  return fmt::format("{}", fmt::join(heads_of(path, heads), "-"));
}

// The strongest pairs of paths.
Table strongest_pairs(const Matrix& u, const std::vector<Index>& heads) {
  struct Pair {
    Index i, j;
    double value;
  };
  std::vector<Pair> pairs;
  for (Index i = 0; i < u.shape()[0]; ++i)
    for (Index j = i; j < u.shape()[1]; ++j) pairs.push_back({i, j, u(i, j)});
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return std::abs(a.value) > std::abs(b.value); });
  Table table{"Strongest pairs of paths, heads from the first layer to the last", {"path", "path", "U"}, {}};
  for (std::size_t k = 0; k < std::min<std::size_t>(pairs.size(), 12); ++k)
    table.rows.push_back(
        {path_name(pairs[k].i, heads), path_name(pairs[k].j, heads), fmt::format("{:.4g}", pairs[k].value)});
  return table;
}

// Examples side by side that have the same answers.
std::vector<Index> sorted_examples(const std::vector<Vector>& y) {
  std::vector<Index> order(static_cast<std::size_t>(y.front().shape()[0]));
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) {
    for (const Vector& answers : y)
      if (answers(a) != answers(b)) return answers(a) > answers(b);
    return false;
  });
  return order;
}

Matrix reordered(const Matrix& kernel, const std::vector<Index>& order) {
  const auto P = static_cast<Index>(order.size());
  Matrix sorted({P, P});
  for (Index i = 0; i < P; ++i)
    for (Index j = 0; j < P; ++j)
      sorted(i, j) = kernel(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(j)]);
  return sorted;
}

Json rows_of(const Matrix& matrix) {
  Json rows = Json::array();
  for (Index i = 0; i < matrix.shape()[0]; ++i)
    rows.push_back(std::vector<double>(row(matrix, i).begin(), row(matrix, i).end()));
  return rows;
}

// Kernels of the paths with the largest weights, examples of a class side by side.
void add_kernels(const Solved& solved, Result& result, Json& document) {
  const std::vector<Index>& heads = solved.prior.heads;
  const Index Pi = solved.u.shape()[0];
  std::vector<Index> paths(static_cast<std::size_t>(Pi));
  std::iota(paths.begin(), paths.end(), Index{0});
  std::stable_sort(paths.begin(), paths.end(), [&](Index a, Index b) { return solved.u(a, a) > solved.u(b, b); });
  paths.resize(static_cast<std::size_t>(std::min(Pi, shown_paths)));
  const std::vector<Index> order = sorted_examples(solved.y);
  const bool written = solved.xi.shape()[0] <= largest_kernel;
  document["path_kernels"] = Json::array();
  for (const Index path : paths) {
    Matrix only({Pi, Pi});
    only(path, path) = static_cast<double>(Pi);
    const Matrix own = kernel(solved.xi, solved.xi, only);
    if (written) document["path_kernels"].push_back({{"path", heads_of(path, heads)}, {"kernel", rows_of(own)}});
    result.maps.push_back(
        {fmt::format("Kernel of the path {}, examples in order of their classes", path_name(path, heads)), "example",
         "example", reordered(own, order), true});
  }
  const Matrix whole = kernel(solved.xi, solved.xi, solved.u);
  if (written) document["kernel"] = rows_of(whole);
  result.maps.push_back({"Kernel of all paths together", "example", "example", reordered(whole, order), true});
}

// Mean over the questions.
std::vector<double> mean_alignment(const Solved& solved, const Matrix& u) {
  const Index leading = std::min<Index>(10, solved.xi.shape()[0]);
  const Matrix own = kernel(solved.xi, solved.xi, u);
  std::vector<double> mean(static_cast<std::size_t>(leading));
  for (const Vector& y : solved.y) {
    const Vector overlap = alignment(own, y, leading);
    for (Index i = 0; i < leading; ++i)
      mean[static_cast<std::size_t>(i)] += overlap(i) / static_cast<double>(solved.y.size());
  }
  return mean;
}

void add_alignment(const Solved& solved, Result& result, Json& document) {
  Chart chart{"Leading components of the kernel and the labels", "component", "|v . y| / sqrt P", {}, false};
  const auto add = [&](const char* name, const char* key, const Matrix& u, bool dashed) {
    const std::vector<double> overlap = mean_alignment(solved, u);
    Curve curve{name, {}, dashed};
    for (std::size_t i = 0; i < overlap.size(); ++i) curve.points.emplace_back(static_cast<double>(i + 1), overlap[i]);
    chart.curves.push_back(std::move(curve));
    document[key] = overlap;
  };
  add("finite width", "alignment", solved.u, false);
  add("infinite width", "alignment_gp", gp_order_parameters(solved.prior)[0], true);
  result.charts.push_back(std::move(chart));
}

}  // namespace

Json json_of(const std::vector<HeadScore>& scores) {
  Json list = Json::array();
  for (const HeadScore& score : scores)
    list.push_back({{"layer", score.layer}, {"head", score.head}, {"score", score.score}, {"raw", score.raw}});
  return list;
}

Result score_report(const std::vector<HeadScore>& scores) {
  Result result;
  result.about =
      "Which paths, one head per layer, a network with this attention would use for the task, by a theory that needs "
      "no training, and a score for every head. Heads near 1 carry the prediction, heads near 0 can go; scores that "
      "are all alike mean that no head is idle, or that the width is so large that the theory cannot tell them apart.";
  Table table{"Heads", {"layer", "head", "score", "raw"}, {}};
  Chart chart{"Score of heads", "head", "score", {}, false};
  const HeadScore* weakest = &scores.front();
  for (const HeadScore& score : scores) {
    if (score.score < weakest->score) weakest = &score;
    if (score.head == 0) chart.curves.push_back({fmt::format("layer {}", score.layer), {}});
    chart.curves.back().points.emplace_back(static_cast<double>(score.head), score.score);
    table.rows.push_back({std::to_string(score.layer), std::to_string(score.head), fmt::format("{:.3f}", score.score),
                          fmt::format("{:.4g}", score.raw)});
  }
  result.findings.push_back(fmt::format("The head to prune first is head {} of layer {}, with a score of {:.3f}.",
                                        weakest->head, weakest->layer, weakest->score));
  result.tables.push_back(std::move(table));
  result.charts.push_back(std::move(chart));
  return result;
}

Result report(const Solved& solved, Json& document) {
  Result result = score_report(solved.scores);
  document["scores"] = json_of(solved.scores);
  document["u"] = rows_of(solved.u);
  result.tables.push_back(strongest_pairs(solved.u, solved.prior.heads));
  result.maps.push_back({"U, the weights of pairs of paths", "path", "path", solved.u, true});
  add_alignment(solved, result, document);
  add_kernels(solved, result, document);
  return result;
}

}  // namespace saddle::analysis::attention_paths
