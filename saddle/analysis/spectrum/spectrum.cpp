#include "saddle/analysis/spectrum/spectrum.hpp"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/primal_attention/primal_attention.hpp"
#include "saddle/mechanisms/primal_attention/spectrum.hpp"
#include "saddle/mechanisms/registry.hpp"

namespace saddle::analysis::spectrum {

namespace {

using Json = nlohmann::ordered_json;
namespace ksvd = mechanisms::primal_attention;
using ksvd::PrimalAttention;

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
  double largest = 0, explained_90 = 0, effective_rank = 0, tokens = 0;
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
    const double largest = m.values.front();
    const auto relative = [&](std::size_t k) { return k < m.values.size() && largest > 0 ? m.values[k] / largest : 0; };
    double total = 0, so_far = 0;
    for (std::size_t k = 0; k < longest; ++k) total += relative(k) * relative(k);
    for (std::size_t k = 0; k < longest; ++k) {
      so_far += relative(k) * relative(k);
      out.explained[k] += (total > 0 ? so_far / total : 1) / count;
      out.values[k] += relative(k) / count;
    }
    out.largest += largest / count;
    out.explained_90 += m.explained_90 / count;
    out.effective_rank += m.effective_rank / count;
    out.tokens += static_cast<double>(m.values.size()) / count;
  }
  return out;
}

// One list of singular values of a layer.
struct Shown {
  std::string of;       // in the JSON
  std::string name;     // in tables and plots; empty for weights, which need none
  bool theory = false;  // what a theory says, not what the model has
  LayerSpectrum spectrum = {};
};

Shown of_weights(const ProbedLayer& layer, const std::vector<Index>& lengths) {
  std::vector<Measures> all;
  for (Index b = 0; b < layer.weights.shape()[0]; ++b)
    for (Index h = 0; h < layer.weights.shape()[1]; ++h)
      all.push_back(measure(map_of(layer.weights, b, h, lengths[static_cast<std::size_t>(b)])));
  return {"weights", "", false, mean_of(all)};
}

// The options of a layer of Primal-Attention, if its written form tells them; a file may say anything.
std::optional<PrimalAttention> primal_options(const std::string& attention) {
  try {
    if (const auto layer = mechanisms::find_layer(attention); layer && layer->name() == PrimalAttention::name)
      return layer->part<PrimalAttention>();
  } catch (const Error&) {
  }
  return std::nullopt;
}

// Whether a declared attention is one of finitely many features; a file may say anything.
bool has_finite_features(const std::string& attention) {
  try {
    if (!mechanisms::find_layer(attention))
      return primal::feature_count(mechanisms::parse(attention).kernel, 1).has_value();
  } catch (const Error&) {
  }
  return false;
}

// Whether an attention brings layers of its own, which no other attention can simply replace.
bool is_layer(const std::string& attention) {
  try {
    return mechanisms::find_layer(attention) != nullptr;
  } catch (const Error&) {
    return false;
  }
}

// What the spectrum of weights suggests; nothing where they are of high rank.
std::string advice_on(std::size_t layer, const std::string& attention, const LayerSpectrum& s) {
  if (s.largest == 0) return fmt::format("Layer {}: all weights are 0.", layer);
  if (s.explained_90 > 0.1 * s.tokens) return "";
  const std::string held =
      fmt::format("Layer {}: {:.1f} of {:.4g} directions hold 90 %", layer, s.explained_90, s.tokens);
  if (has_finite_features(attention)) return fmt::format("{}; {} has finitely many features already.", held, attention);
  if (is_layer(attention)) return held + ".";
  return held + ": try a low-rank attention there, such as primal_attention or linear.";
}

tape::Value on_tape(const Array<double, 4>& part) {
  for (const double value : part)
    if (!std::isfinite(value)) throw InvalidArgument("[spectrum] scores or features of a layer hold NaN or infinity");
  return {Shape(part.shape().begin(), part.shape().end()), {part.begin(), part.end()}};
}

// values [..,K]: the mean over all lists of K.
LayerSpectrum mean_of(const tape::Value& values, Index tokens) {
  const Index K = values.size(-1);
  std::vector<Measures> all;
  for (auto first = values.data().begin(); first != values.data().end(); first += K) {
    std::vector<double> own(first, first + K);
    for (double& value : own) value = std::min(value, 1e300);  // a lambda of 0 has no largest value
    all.push_back(measure(std::move(own)));
  }
  LayerSpectrum out = mean_of(all);
  out.tokens = static_cast<double>(tokens);
  return out;
}

// Of Primal-Attention, which has no weights: the kernel on these samples, what the layer makes of it, and what both
// come to where the objective of its loss is stationary. Nothing for layers without these parts.
std::vector<Shown> of_kernel(const ProbedLayer& layer) {
  for (const char* name : {"escore", "rscore", "phi_q", "phi_k", "lambda"})
    if (!layer.parts.contains(name)) return {};
  const auto part = [&](const char* name) { return on_tape(layer.parts.at(name)); };
  const tape::Value escore = part("escore"), all = part("lambda");
  const tape::Value lambda = tape::reshape(all, {all.size(2), all.size(3)});
  const Index N = escore.size(2);
  const PrimalAttention primal = primal_options(layer.attention).value_or(PrimalAttention{});
  const bool sampled = layer.parts.contains("sample") && primal.trace == ksvd::Trace::no_x;
  return {{"kernel", "kernel", false,
           mean_of(ksvd::kernel_spectrum(part("phi_q"), part("phi_k"), sampled ? part("sample") : tape::Value()), N)},
          {"learned", "E L R'", false, mean_of(ksvd::learned_spectrum(escore, part("rscore"), lambda), N)},
          {"stationary", "N/lambda^2", true, mean_of(ksvd::stationary_spectrum(lambda, N), N)}};
}

// What the three lists are, and how far the layer is from where they agree.
std::vector<std::string> words_for(std::size_t layer, const std::string& attention, const std::vector<Shown>& lists) {
  std::vector<std::string> words{fmt::format(
      "Layer {} ({}) has no matrix of weights. Shown are the singular values of its kernel on these samples; those of "
      "E L R', L = diag(lambda^2)/N, which the layer makes of it with its scores; and N/lambda^2, which both come to "
      "only where the KSVD objective is stationary.",
      layer, attention)};
  const auto primal = primal_options(attention);
  if (primal && primal->eta == 0)
    words.push_back(
        fmt::format("Layer {}: eta=0, so lambda was not trained by the loss: it is as random as it began. E L R' and "
                    "N/lambda^2 are "
                    "made of it and tell nothing of what was learned; the kernel does.",
                    layer));
  else
    words.push_back(
        fmt::format("Layer {}: the largest values are {:.3g} of the kernel, {:.3g} of E L R' and {:.3g} of N/lambda^2; "
                    "only where all three agree is the layer the truncated SVD of its kernel.",
                    layer, lists[0].spectrum.largest, lists[1].spectrum.largest, lists[2].spectrum.largest));
  return words;
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
  Table table{
      "Layers", {"layer", "attention", "of", "tokens", "largest value", "values for 90 %", "effective rank"}, {}};
  Chart chart{"Explained variance: share of the squares in the largest k singular values", "k", "share", {}, false};
  Chart values{"Singular values, measured by the largest", "k", "value", {}, true};
  Json layers = Json::array();
  double ranks = 0, held = 0, shown = 0;
  for (std::size_t layer = 0; layer < probe->layers.size(); ++layer) {
    const ProbedLayer& own = probe->layers[layer];
    const std::vector<Shown> lists =
        own.weights.empty() ? of_kernel(own) : std::vector{of_weights(own, probe->lengths)};
    if (lists.empty()) {
      result.findings.push_back(fmt::format("Layer {} ({}) has no matrix of weights.", layer, own.attention));
      continue;
    }
    // The first list is what the model has.
    ranks += lists[0].spectrum.effective_rank;
    held += lists[0].spectrum.explained_90;
    ++shown;
    for (const Shown& list : lists) {
      const LayerSpectrum& s = list.spectrum;
      table.rows.push_back({std::to_string(layer), own.attention, list.name.empty() ? list.of : list.name,
                            fmt::format("{:.4g}", s.tokens), fmt::format("{:.4g}", s.largest),
                            fmt::format("{:.1f}", s.explained_90), fmt::format("{:.2f}", s.effective_rank)});
      Curve curve{fmt::format("layer {}{}{}", layer, list.name.empty() ? "" : ": ", list.name), {}, list.theory};
      Curve falling = curve;
      for (std::size_t k = 0; k < s.explained.size(); ++k) {
        curve.points.emplace_back(static_cast<double>(k + 1), s.explained[k]);
        if (s.values[k] > rounding) falling.points.emplace_back(static_cast<double>(k + 1), s.values[k]);
      }
      chart.curves.push_back(std::move(curve));
      values.curves.push_back(std::move(falling));
      layers.push_back({{"layer", layer},
                        {"attention", own.attention},
                        {"of", list.of},
                        {"tokens", s.tokens},
                        {"largest", s.largest},
                        {"explained_90", s.explained_90},
                        {"effective_rank", s.effective_rank},
                        {"explained", s.explained},
                        {"singular_values", s.values}});
    }
    if (own.weights.empty()) {
      const auto words = words_for(layer, own.attention, lists);
      result.findings.insert(result.findings.end(), words.begin(), words.end());
    } else if (std::string advice = advice_on(layer, own.attention, lists[0].spectrum); !advice.empty()) {
      result.findings.push_back(std::move(advice));
    }
  }
  if (table.rows.empty())
    throw NotSupported(
        fmt::format("{} has no layer with a matrix of weights, and none that shows its kernel", model.name), {},
        "declared attentions such as softmax have weights; primal_attention shows its kernel");
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
  return measure({svd.singularValues().begin(), svd.singularValues().end()});
}

Measures measure(std::vector<double> values) {
  if (values.empty()) throw InvalidArgument("[spectrum] there are no singular values to measure");
  Measures out;
  out.values = std::move(values);
  // Squares of values are taken relative to the largest: none overflows.
  const double largest = out.values.front() > 0 ? out.values.front() : 1;
  double squares = 0, sum = 0, held = 0;
  for (const double value : out.values) {
    squares += value / largest * (value / largest);
    sum += value / largest;
  }
  double entropy = 0;
  for (const double value : out.values) {
    if (held < 0.9 * squares) ++out.explained_90;
    held += value / largest * (value / largest);
    const double share = value / largest / sum;
    if (share > 0) entropy -= share * std::log(share);
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
