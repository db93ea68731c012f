#include "saddle/analysis/head_redundancy/head_redundancy.hpp"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"

namespace saddle::analysis::head_redundancy {

namespace {

using Json = nlohmann::ordered_json;
using Matrix = Eigen::MatrixXd;

// The outputs of one head at all tokens that exist, one row each.
Matrix rows_of(const Array<double, 4>& heads, const std::vector<Index>& lengths, Index head) {
  Index total = 0;
  for (const Index length : lengths) total += length;
  const Index E = heads.shape()[3];
  Matrix rows(total, E);
  Index row = 0;
  for (Index b = 0; b < heads.shape()[0]; ++b)
    for (Index n = 0; n < lengths[static_cast<std::size_t>(b)]; ++n, ++row)
      for (Index e = 0; e < E; ++e) rows(row, e) = heads(b, head, n, e);
  return rows;
}

Json list_of(const Array<double, 2>& matrix) {
  Json rows = Json::array();
  for (Index i = 0; i < matrix.shape()[0]; ++i) {
    const auto own = row(matrix, i);
    rows.push_back(std::vector<double>(own.begin(), own.end()));
  }
  return rows;
}

double linear_cka(const Matrix& a, const Matrix& b) {
  const Matrix x = a.rowwise() - a.colwise().mean(), y = b.rowwise() - b.colwise().mean();
  const double scale = (x.transpose() * x).norm() * (y.transpose() * y).norm();
  return scale > 0 ? (x.transpose() * y).squaredNorm() / scale : 0;
}

// What hinders a comparison of the heads of a layer; empty where nothing does.
std::string remark(const Measures& m, Index H) {
  if (H < 2) return "has one head, which has none to be compared with";
  const auto silent = static_cast<Index>(m.silent.size());
  if (silent == 0) return "";
  const std::string rest = H - silent == 0   ? "there is nothing to compare"
                           : H - silent == 1 ? "the one that is left has none to be compared with"
                                             : "the others are compared with each other";
  if (silent == H) return fmt::format("has {} heads whose outputs are 0 at every token: {}", H, rest);
  return fmt::format("has outputs that are 0 at every token in {} {}: {}", silent == 1 ? "head" : "heads",
                     fmt::join(m.silent, ", "), rest);
}

Result on_model(const ProbedModel& model, Options& options) {
  options.check();
  Result result;
  result.about =
      "Distances between the outputs of the heads of a layer, measured by the size of the outputs, and how alike heads "
      "are. Heads that are orthogonal and of equal size lie 1.41 apart; near 0 they say the same, and one of them "
      "could go.";
  Json document{{"model", model.name}, {"splits", Json::array()}};
  Chart chart{"Distance between heads by the size of their outputs", "layer", "distance / norm", {}, false};
  Table table{
      "Heads", {"split", "layer", "attention", "distance", "deviation", "norm", "distance/norm", "cosine", "CKA"}, {}};
  for (const Probe& probe : model.probes) {
    Curve curve{probe.split, {}};
    Json layers = Json::array();
    double relative = 0, cka = 0, compared = 0;
    for (std::size_t layer = 0; layer < probe.layers.size(); ++layer) {
      const ProbedLayer& own = probe.layers[layer];
      if (own.heads.empty())
        throw NotSupported(fmt::format("head_redundancy: layer {} does not show the outputs of its heads", layer), {},
                           "a file needs 'heads' [L,B,H,N,E]; attention weights alone do not tell what heads say");
      const Measures m = measure(own.heads, probe.lengths);
      const Index H = own.heads.shape()[1];
      if (const std::string found = remark(m, H); !found.empty())
        result.findings.push_back(fmt::format("{}: layer {} ({}) {}.", probe.split, layer, own.attention, found));
      if (H - static_cast<Index>(m.silent.size()) < 2) continue;
      curve.points.emplace_back(static_cast<double>(layer), m.relative);
      relative += m.relative;
      cka += m.cka;
      ++compared;
      table.rows.push_back({probe.split, std::to_string(layer), own.attention, fmt::format("{:.4g}", m.distance),
                            fmt::format("{:.4g}", m.deviation), fmt::format("{:.4g}", m.norm),
                            fmt::format("{:.3f}", m.relative), fmt::format("{:.3f}", m.cosine),
                            fmt::format("{:.3f}", m.cka)});
      layers.push_back(
          {{"layer", layer},
           {"attention", own.attention},
           {"distance", m.distance},
           {"deviation", m.deviation},
           {"norm", m.norm},
           {"relative", m.relative},
           {"cosine", m.cosine},
           {"cka", m.cka},
           {"silent", m.silent},
           {"pairs", {{"relative", list_of(m.pairs)}, {"cosine", list_of(m.cosines)}, {"cka", list_of(m.ckas)}}}});
      if (probe.split == "test")
        result.maps.push_back(
            {fmt::format("layer {}: distance of head and head by their size", layer), "head", "head", m.pairs, true});
    }
    document["splits"].push_back({{"split", probe.split}, {"layers", layers}});
    if (compared == 0) continue;
    relative /= compared;
    cka /= compared;
    chart.curves.push_back(std::move(curve));
    result.figures.emplace_back(probe.split + ": distance/norm, mean of layers", relative);
    result.figures.emplace_back(probe.split + ": CKA", cka);
    result.findings.push_back(
        fmt::format("{}: heads lie {:.2f} norms apart on average, {}; CKA is {:.2f}.", probe.split, relative,
                    relative > 1 ? "so they say different things" : "so they partly repeat each other", cka));
  }
  if (!chart.curves.empty()) {
    result.tables.push_back(std::move(table));
    result.charts.push_back(std::move(chart));
  }
  result.json = document.dump();
  return result;
}

}  // namespace

Measures measure(const Array<double, 4>& heads, const std::vector<Index>& lengths) {
  const Index H = heads.shape()[1];
  Measures m;
  m.pairs = m.cosines = m.ckas = Array<double, 2>({H, H});
  std::vector<Matrix> rows;
  for (Index h = 0; h < H; ++h) rows.push_back(rows_of(heads, lengths, h));
  const Index count = rows.empty() ? 0 : rows[0].rows();
  if (count == 0) throw InvalidArgument("[head_redundancy] there is no token to look at");
  for (const Matrix& own : rows)
    if (!own.allFinite()) throw InvalidArgument("[head_redundancy] outputs of heads hold NaN or infinity");
  for (Index h = 0; h < H; ++h)
    if (rows[static_cast<std::size_t>(h)].isZero(0)) m.silent.push_back(h);
  const Index speaking = H - static_cast<Index>(m.silent.size());
  const auto is_silent = [&](Index h) { return std::find(m.silent.begin(), m.silent.end(), h) != m.silent.end(); };
  for (const Matrix& own : rows)
    if (speaking > 0) m.norm += own.rowwise().norm().mean() / static_cast<double>(speaking);
  if (H < 2) return m;
  double squares = 0;
  const double pairs = static_cast<double>(std::max<Index>(1, speaking * (speaking - 1) / 2));
  for (Index s = 0; s < H; ++s)
    for (Index t = s + 1; t < H; ++t) {
      const Eigen::VectorXd distances = (rows[s] - rows[t]).rowwise().norm();
      const double mean = distances.mean();
      m.pairs(s, t) = m.pairs(t, s) = m.norm > 0 ? mean / m.norm : 0;
      if (is_silent(s) || is_silent(t)) continue;
      m.distance += mean / pairs;
      squares += distances.squaredNorm() / static_cast<double>(count) / pairs;
      const Eigen::ArrayXd sizes = rows[s].rowwise().norm().array() * rows[t].rowwise().norm().array();
      const Eigen::ArrayXd products = (rows[s].array() * rows[t].array()).rowwise().sum();
      m.cosines(s, t) = m.cosines(t, s) = (sizes > 0).select(products / sizes, 0.0).mean();
      m.ckas(s, t) = m.ckas(t, s) = linear_cka(rows[s], rows[t]);
      m.cosine += m.cosines(s, t) / pairs;
      m.cka += m.ckas(s, t) / pairs;
    }
  for (Index h = 0; h < H; ++h) m.cosines(h, h) = m.ckas(h, h) = is_silent(h) ? 0 : 1;
  m.deviation = std::sqrt(std::max(0.0, squares - m.distance * m.distance));
  m.relative = m.norm > 0 ? m.distance / m.norm : 0;
  return m;
}

const Analysis& analysis() {
  static const Analysis value = [] {
    Analysis own;
    own.name = "head_redundancy";
    own.title = "Redundancy of heads";
    own.summary = "how far apart the outputs of heads are, per layer, on the training and the test split";
    own.bibtex = R"(@inproceedings{nguyen2023primal,
  title     = {A Primal-Dual Framework for Transformers and Neural Networks},
  author    = {Nguyen, Tan M. and Nguyen, Tam and Ho, Nhat and Bertozzi, Andrea L. and Baraniuk, Richard G. and
               Osher, Stanley J.},
  booktitle = {International Conference on Learning Representations},
  year      = {2023},
  note      = {arXiv:2406.13781}
})";
    own.on_model = on_model;
    return own;
  }();
  return value;
}

}  // namespace saddle::analysis::head_redundancy
