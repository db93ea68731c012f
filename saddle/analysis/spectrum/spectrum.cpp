#include "saddle/analysis/spectrum/spectrum.hpp"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "saddle/base/error.hpp"

namespace saddle::analysis::spectrum {

namespace {

using Json = nlohmann::ordered_json;

constexpr double rounding = 1e-8;  // below this share of the largest, values of a model in float say nothing

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
  std::vector<double> values;     // mean singular values, the largest of each matrix being 1
  double explained_90 = 0, effective_rank = 0, tokens = 0;
};

// The mean over matrices, each given by its singular values.
LayerSpectrum mean_of(const std::vector<Measures>& all) {
  LayerSpectrum out;
  std::size_t longest = 0;
  for (const Measures& m : all) longest = std::max(longest, m.values.size());
  out.explained.assign(longest, 0.0);
  out.values.assign(longest, 0.0);
  const auto count = static_cast<double>(all.size());
  for (const Measures& m : all) {
    double total = 0, so_far = 0;
    for (const double value : m.values) total += value * value;
    for (std::size_t k = 0; k < longest; ++k) {
      const double value = k < m.values.size() ? m.values[k] : 0;
      so_far += value * value;
      out.explained[k] += (total > 0 ? so_far / total : 1) / count;
      out.values[k] += (total > 0 ? value / m.values.front() : 0) / count;
    }
    out.explained_90 += m.explained_90 / count;
    out.effective_rank += m.effective_rank / count;
    out.tokens += static_cast<double>(m.values.size()) / count;
  }
  return out;
}

LayerSpectrum spectrum_of(const ProbedLayer& layer, const std::vector<Index>& lengths) {
  std::vector<Measures> all;
  for (Index b = 0; b < layer.weights.shape()[0]; ++b)
    for (Index h = 0; h < layer.weights.shape()[1]; ++h)
      all.push_back(measure(map_of(layer.weights, b, h, lengths[static_cast<std::size_t>(b)])));
  return mean_of(all);
}

// The spectrum of the kernel that Primal-Attention has learnt, as its lambda [H,s] tells: singular values 1/lambda^2,
// up to a factor. Nothing for other mechanisms.
std::optional<LayerSpectrum> learned_kernel(const ProbedModel& model, std::size_t layer) {
  const std::string prefix = fmt::format("blocks.{}.", layer);
  for (const auto& [name, tensor] : model.weights) {
    if (!name.starts_with(prefix) || !name.ends_with(".lambda") || tensor.shape().size() != 2) continue;
    const Index H = tensor.shape()[0], s = tensor.shape()[1];
    std::vector<Measures> all;
    for (Index h = 0; h < H; ++h) {
      std::vector<double> values;
      for (Index i = 0; i < s; ++i) {
        const double lambda = tensor.at(h * s + i);
        values.push_back(1 / std::max(lambda * lambda, 1e-300));
      }
      const double largest = *std::max_element(values.begin(), values.end());
      Array<double, 2> diagonal({s, s});
      for (Index i = 0; i < s; ++i) diagonal(i, i) = values[static_cast<std::size_t>(i)] / largest;
      all.push_back(measure(diagonal));
    }
    return mean_of(all);
  }
  return std::nullopt;
}

Result on_model(const ProbedModel& model, Options& options) {
  if (model.probes.empty()) throw InvalidArgument("[spectrum] the model was not probed");
  const std::string split = options.text("split", model.probes.back().split);
  options.check();
  const Probe* const probe = &model.probe(split);
  Result result;
  result.about =
      "How many directions hold an attention matrix: the share of its squared singular values in the largest k, "
      "averaged over heads and samples. Where a few hold 90 %, a low-rank or linear attention would lose little in "
      "that layer; a curve that rises slowly says that it would lose much.";
  Table table{"Layers", {"layer", "attention", "tokens", "values for 90 %", "effective rank"}, {}};
  Chart chart{"Explained variance: share of the squares in the largest k singular values", "k", "share", {}, false};
  Chart values{"Singular values, measured by the largest", "k", "value", {}, true};
  Json layers = Json::array();
  double ranks = 0, held = 0, shown = 0;
  for (std::size_t layer = 0; layer < probe->layers.size(); ++layer) {
    const ProbedLayer& own = probe->layers[layer];
    const auto learned = own.weights.empty() ? learned_kernel(model, layer) : std::nullopt;
    if (own.weights.empty() && !learned) {
      result.findings.push_back(fmt::format("Layer {} ({}) has no matrix of weights.", layer, own.attention));
      continue;
    }
    if (learned)
      result.findings.push_back(fmt::format(
          "Layer {} ({}) has no matrix of weights; shown are the singular values 1/lambda^2 that its kernel "
          "has where the KSVD loss is stationary.",
          layer, own.attention));
    const LayerSpectrum s = learned ? *learned : spectrum_of(own, probe->lengths);
    ranks += s.effective_rank;
    held += s.explained_90;
    ++shown;
    table.rows.push_back({std::to_string(layer), own.attention, fmt::format("{:.4g}", s.tokens),
                          fmt::format("{:.1f}", s.explained_90), fmt::format("{:.2f}", s.effective_rank)});
    Curve curve{fmt::format("layer {}", layer), {}}, falling = curve;
    for (std::size_t k = 0; k < s.explained.size(); ++k) {
      curve.points.emplace_back(static_cast<double>(k + 1), s.explained[k]);
      if (s.values[k] > rounding) falling.points.emplace_back(static_cast<double>(k + 1), s.values[k]);
    }
    chart.curves.push_back(std::move(curve));
    values.curves.push_back(std::move(falling));
    layers.push_back({{"layer", layer},
                      {"attention", own.attention},
                      {"of", learned ? "learned kernel" : "weights"},
                      {"tokens", s.tokens},
                      {"explained_90", s.explained_90},
                      {"effective_rank", s.effective_rank},
                      {"explained", s.explained},
                      {"singular_values", s.values}});
    if (!learned && s.explained_90 <= 0.1 * s.tokens)
      result.findings.push_back(
          fmt::format("Layer {}: {:.1f} of {:.4g} directions hold 90 %: try a low-rank attention there, such as "
                      "primal_attention or linear.",
                      layer, s.explained_90, s.tokens));
  }
  if (table.rows.empty())
    throw NotSupported(fmt::format("{} has no layer with a matrix of weights or a learned kernel", model.name), {},
                       "declared attentions such as softmax have weights; primal_attention has a kernel");
  result.figures = {{"values for 90 %, mean of layers", held / shown}, {"effective rank", ranks / shown}};
  result.tables.push_back(std::move(table));
  result.charts = {std::move(chart), std::move(values)};
  result.json = Json{{"model", model.name}, {"split", split}, {"layers", layers}}.dump();
  return result;
}

}  // namespace

Measures measure(const Array<double, 2>& matrix) {
  const Index n = matrix.shape()[0], m = matrix.shape()[1];
  if (n < 1 || m < 1) throw InvalidArgument("[spectrum] an empty matrix has no singular values");
  if (!std::all_of(matrix.begin(), matrix.end(), [](double value) { return std::isfinite(value); }))
    throw InvalidArgument("[spectrum] the matrix holds NaN or infinity");
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
