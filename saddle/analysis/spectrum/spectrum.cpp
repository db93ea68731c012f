#include "saddle/analysis/spectrum/spectrum.hpp"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"

namespace saddle::analysis::spectrum {

namespace {

using Json = nlohmann::ordered_json;

// Weights of one head on one sample, the tokens that exist.
Array<double, 2> map_of(const Array<double, 4>& weights, Index sample, Index head, Index length) {
  const Index N = std::min(length, weights.shape()[2]);
  const Index K = weights.shape()[3] == weights.shape()[2] ? N : weights.shape()[3];
  Array<double, 2> map({N, K});
  for (Index i = 0; i < N; ++i)
    for (Index j = 0; j < K; ++j) map(i, j) = weights(sample, head, i, j);
  return map;
}

struct LayerSpectrum {
  std::vector<double> explained;  // mean share of the sum of squares that the first k hold, k = 1..
  double explained_90 = 0, effective_rank = 0, tokens = 0;
};

LayerSpectrum spectrum_of(const ProbedLayer& layer, const std::vector<Index>& lengths) {
  LayerSpectrum out;
  const Index B = layer.weights.shape()[0], H = layer.weights.shape()[1];
  std::vector<std::vector<double>> shares;
  std::size_t longest = 0;
  for (Index b = 0; b < B; ++b)
    for (Index h = 0; h < H; ++h) {
      const Measures m = measure(map_of(layer.weights, b, h, lengths[static_cast<std::size_t>(b)]));
      double total = 0, so_far = 0;
      for (const double value : m.values) total += value * value;
      std::vector<double> share;
      for (const double value : m.values) share.push_back(total > 0 ? (so_far += value * value) / total : 1);
      longest = std::max(longest, share.size());
      shares.push_back(std::move(share));
      const double count = static_cast<double>(B * H);
      out.explained_90 += m.explained_90 / count;
      out.effective_rank += m.effective_rank / count;
      out.tokens += static_cast<double>(m.values.size()) / count;
    }
  out.explained.assign(longest, 0.0);
  for (const auto& share : shares)
    for (std::size_t k = 0; k < longest; ++k)
      out.explained[k] += (k < share.size() ? share[k] : 1.0) / static_cast<double>(shares.size());
  return out;
}

Result on_model(const ProbedModel& model, Options& options) {
  const std::string split = options.text("split", "test");
  options.check();
  const auto probe =
      std::find_if(model.probes.begin(), model.probes.end(), [&](const Probe& each) { return each.split == split; });
  if (probe == model.probes.end())
    throw InvalidArgument(fmt::format("option 'split' is '{}', expected train or test", split));
  Result result;
  result.about =
      "How many directions hold an attention matrix: the share of its squared singular values in the largest k, "
      "averaged "
      "over heads and samples. Where a few hold 90 %, a low-rank or linear attention would lose little in that layer; "
      "a "
      "curve that rises slowly says that it would lose much.";
  Table table{"Layers", {"layer", "attention", "tokens", "values for 90 %", "effective rank"}, {}};
  Chart chart{"Share of the squares that the largest k singular values hold", "k", "share", {}, false};
  Json layers = Json::array();
  for (std::size_t layer = 0; layer < probe->layers.size(); ++layer) {
    const ProbedLayer& own = probe->layers[layer];
    if (own.weights.empty()) {
      result.findings.push_back(fmt::format("Layer {} ({}) has no matrix of weights.", layer, own.attention));
      continue;
    }
    const LayerSpectrum s = spectrum_of(own, probe->lengths);
    table.rows.push_back({std::to_string(layer), own.attention, fmt::format("{:.4g}", s.tokens),
                          fmt::format("{:.1f}", s.explained_90), fmt::format("{:.2f}", s.effective_rank)});
    Curve curve{fmt::format("layer {}", layer), {}};
    for (std::size_t k = 0; k < s.explained.size(); ++k)
      curve.points.emplace_back(static_cast<double>(k + 1), s.explained[k]);
    chart.curves.push_back(std::move(curve));
    layers.push_back({{"layer", layer},
                      {"attention", own.attention},
                      {"tokens", s.tokens},
                      {"explained_90", s.explained_90},
                      {"effective_rank", s.effective_rank},
                      {"explained", s.explained}});
    if (s.explained_90 <= 0.1 * s.tokens)
      result.findings.push_back(
          fmt::format("Layer {}: {:.1f} of {:.4g} directions hold 90 %: try a low-rank attention there, such as "
                      "primal_attention or linear.",
                      layer, s.explained_90, s.tokens));
  }
  if (!table.rows.empty()) {
    result.tables.push_back(std::move(table));
    result.charts.push_back(std::move(chart));
  }
  result.json = Json{{"model", model.name}, {"split", split}, {"layers", layers}}.dump();
  return result;
}

}  // namespace

Measures measure(const Array<double, 2>& matrix) {
  const Index n = matrix.shape()[0], m = matrix.shape()[1];
  if (n < 1 || m < 1) throw InvalidArgument("[spectrum] an empty matrix has no singular values");
  const Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> a(matrix.data(), n, m);
  const Eigen::BDCSVD<Eigen::MatrixXd> svd(a);
  Measures out;
  out.values.assign(svd.singularValues().begin(), svd.singularValues().end());
  double squares = 0, sum = 0, held = 0;
  for (const double value : out.values) {
    squares += value * value;
    sum += value;
  }
  double entropy = 0;
  for (const double value : out.values) {
    if (held < 0.9 * squares) ++out.explained_90;
    held += value * value;
    if (value > 0) entropy -= value / sum * std::log(value / sum);
  }
  out.effective_rank = std::exp(entropy);
  return out;
}

const Analysis& analysis() {
  static const Analysis value = [] {
    Analysis own;
    own.name = "spectrum";
    own.title = "Spectrum of attention";
    own.summary = "singular values of attention matrices, and how many of them matter, per layer";
    own.bibtex = R"(@inproceedings{chen2023primal,
  title     = {Primal-Attention: Self-attention through Asymmetric Kernel {SVD} in Primal Representation},
  author    = {Chen, Yingyi and Tao, Qinghua and Tonin, Francesco and Suykens, Johan A. K.},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2023},
  note      = {arXiv:2305.19798}
})";
    own.on_model = on_model;
    return own;
  }();
  return value;
}

}  // namespace saddle::analysis::spectrum
