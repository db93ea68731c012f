#include "saddle/analysis/imf/imf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "saddle/analysis/imf/imf_internal.hpp"
#include "saddle/analysis/named_tensors_internal.hpp"
#include "saddle/base/error.hpp"
#include "saddle/mechanisms/golden_tape.hpp"

namespace saddle::analysis::imf {

namespace {

using Json = nlohmann::ordered_json;
using tape::Value;

// 1 where a token is of this kind, [B,1,S,1] as queries or [B,1,1,S] as keys.
Value indicator(const Value& kind, double wanted, bool queries) {
  std::vector<double> data(kind.data());
  for (double& token : data) token = (wanted < 0 ? token != special : token == wanted) ? 1.0 : 0.0;
  const Index B = kind.size(0), S = kind.size(1);
  return queries ? Value({B, 1, S, 1}, data) : Value({B, 1, 1, S}, data);
}

constexpr double any_kind = -1;

// a / b, 0 where b is 0.
Value ratio(const Value& a, const Value& b) {
  const Value whole = tape::where(b, b, 1.0);
  return tape::where(tape::detach(b), a / whole, 0.0);
}

// m [B,K,S,S] -> [B,K,3]
Value shares(const Value& m, const Value& kind) {
  const auto sum = [&](double queries, double keys) {
    return tape::sum(tape::sum(m * indicator(kind, queries, true) * indicator(kind, keys, false), 3), 2);
  };
  const Value to_language = sum(language, vision), to_vision = sum(vision, language);
  return tape::stack({ratio(to_language + to_vision, sum(any_kind, any_kind)),
                      ratio(to_language, sum(language, any_kind)), ratio(to_vision, sum(vision, any_kind))},
                     2);
}

void require_shapes(const Value& attention, const Value& kind) {
  const Shape& a = attention.shape();
  const bool empty = std::find(a.begin(), a.end(), 0) != a.end();
  if (empty || a.size() != 5 || a[3] != a[4] || kind.rank() != 2 || kind.size(0) != a[0] || kind.size(1) != a[4])
    throw InvalidArgument(
        fmt::format("[imf] attention has shape {} and kind {}: (B,L,H,S,S) and (B,S) are expected, none of "
                    "them 0",
                    to_string(a), to_string(kind.shape())));
}

Value identity(Index S) {
  std::vector<double> data(static_cast<std::size_t>(S * S), 0.0);
  for (Index i = 0; i < S; ++i) data[static_cast<std::size_t>(i * S + i)] = 1;
  return {{1, S, S}, data};
}

Result on_tensors(const TensorFile& file, const std::string& path, Options& options) {
  const std::string attention_name = options.text("attention", "attention"), kind_name = options.text("kind", "");
  if (kind_name.empty() && find_tensor(file, "kind") == nullptr) return on_model(probed_model(file, path), options);
  options.check();
  const auto find = [&](const std::string& name) -> Value {
    if (const Tensor* const found = find_tensor(file, name)) return Value(*found);
    throw DataError(path, 0, 0, fmt::format("has no tensor '{}'", name),
                    "attention (B,L,H,S,S) and kind (B,S) are expected: 0 special, 1 language, 2 vision");
  };
  const Value attention = find(attention_name), kind = find(kind_name.empty() ? "kind" : kind_name);
  require_shapes(attention, kind);
  std::vector<std::string> layers;
  for (Index l = 0; l < attention.size(1); ++l) layers.push_back(std::to_string(l));
  Result result = flows_of(attention, kind, layers, {Flow::layer, Flow::residual, Flow::rollout});
  result.findings.emplace_back(reconstruction);
  return result;
}

// attention [B,L,H,S,S] -> [B,L,1,S,S]: every token attends alike to all those that anybody attends to.
Value uniform(const Value& attention) {
  const Index B = attention.size(0), L = attention.size(1), S = attention.size(3), rows = attention.size(2) * S;
  std::vector<double> data(static_cast<std::size_t>(B * L * S * S), 0.0);
  for (Index layer = 0; layer < B * L; ++layer) {
    std::vector<double> seen(static_cast<std::size_t>(S), 0.0);
    for (Index i = 0; i < rows * S; ++i)
      if (attention.data()[static_cast<std::size_t>(layer * rows * S + i)] != 0)
        seen[static_cast<std::size_t>(i % S)] = 1;
    const double count = std::max(1.0, std::accumulate(seen.begin(), seen.end(), 0.0));
    for (Index i = 0; i < S * S; ++i)
      data[static_cast<std::size_t>(layer * S * S + i)] = seen[static_cast<std::size_t>(i % S)] / count;
  }
  return {{B, L, 1, S, S}, data};
}

}  // namespace

Result flows_of(const Value& attention, const Value& kind, const std::vector<std::string>& layers,
                const std::vector<Flow>& which) {
  Result result;
  result.about =
      "The share of attention that crosses between language and vision, layer by layer, beside the share that uniform "
      "attention would have. Well above chance the modalities read each other; near 0 they run side by side.";
  const Index B = attention.size(0), L = attention.size(1);
  const Value levels = chance(kind);
  const double level = std::accumulate(levels.data().begin(), levels.data().end(), 0.0) / static_cast<double>(B);
  Table table{"Layers", {"flow", "layer", "IMF", "language reads vision", "vision reads language", "chance"}, {}};
  Chart chart{"Inter-modality flow", "layer", "share that crosses", {}, false};
  Json flows = Json::object(), chances = Json::object();
  const Value alike = uniform(attention);
  for (const Flow each : which) {
    const char* const name = each == Flow::layer ? "layer" : each == Flow::residual ? "residual" : "rollout";
    const Value mean = tape::mean(flow(attention, kind, each), 0);  // [L,3]
    const Value expected = tape::mean(flow(alike, kind, each), 0);
    Curve curve{name, {}}, line{fmt::format("chance ({})", name), {}, true};
    Json list = Json::array(), levels_of = Json::array();
    double sum = 0;
    for (Index l = 0; l < L; ++l) {
      const double* const share = &mean.data()[static_cast<std::size_t>(3 * l)];
      const double by_chance = expected.data()[static_cast<std::size_t>(3 * l)];
      table.rows.push_back({name, layers[static_cast<std::size_t>(l)], fmt::format("{:.3f}", share[0]),
                            fmt::format("{:.3f}", share[1]), fmt::format("{:.3f}", share[2]),
                            fmt::format("{:.3f}", by_chance)});
      curve.points.emplace_back(static_cast<double>(l), share[0]);
      line.points.emplace_back(static_cast<double>(l), by_chance);
      levels_of.push_back(by_chance);
      list.push_back({share[0], share[1], share[2]});
      sum += share[0];
    }
    if (L > 1) {
      std::vector<std::string> row{name, "mean"};
      for (Index c = 0; c < 4; ++c) {
        double total = 0;
        for (Index l = 0; l < L; ++l)
          total += c < 3 ? mean.data()[static_cast<std::size_t>(3 * l + c)]
                         : expected.data()[static_cast<std::size_t>(3 * l)];
        row.push_back(fmt::format("{:.3f}", total / static_cast<double>(L)));
      }
      table.rows.push_back(std::move(row));
    }
    flows[name] = list;
    chances[name] = levels_of;
    result.figures.emplace_back(fmt::format("IMF ({}), mean over layers", name), sum / static_cast<double>(L));
    if (L == 1) line.points.emplace_back(1.0, line.points[0].second);
    chart.curves.push_back(std::move(curve));
    chart.curves.push_back(std::move(line));
  }
  result.figures.emplace_back("chance", level);
  result.tables.push_back(std::move(table));
  result.charts.push_back(std::move(chart));
  result.json = Json{{"samples", B}, {"layers", L}, {"chance", level}, {"flows", flows}, {"chances", chances}}.dump();
  return result;
}

Value flow(const Value& attention, const Value& kind, Flow which) {
  require_shapes(attention, kind);
  const Index B = attention.size(0), L = attention.size(1), S = attention.size(3);
  const Value mean = tape::mean(attention, 2);  // [B,L,S,S]
  if (which == Flow::layer) return shares(mean, kind);
  std::vector<Value> layers;
  for (Index l = 0; l < L; ++l) {
    const Value own = Value(0.5) * tape::at(mean, 1, l) + Value(0.5) * identity(S);
    layers.push_back(which == Flow::rollout && l > 0 ? tape::matmul(own, layers.back()) : own);
  }
  return tape::reshape(shares(tape::stack(layers, 1), kind), {B, L, 3});
}

Value flow_of_heads(const Value& attention, const Value& kind) {
  require_shapes(attention, kind);
  const Index B = attention.size(0), L = attention.size(1), H = attention.size(2), S = attention.size(3);
  return tape::reshape(shares(tape::reshape(attention, {B, L * H, S, S}), kind), {B, L, H, 3});
}

Value chance(const Value& kind) {
  std::vector<double> levels;
  const Index S = kind.size(1);
  for (Index b = 0; b < kind.size(0); ++b) {
    const auto first = kind.data().begin() + b * S;
    const auto t = static_cast<double>(std::count(first, first + S, language));
    const auto v = static_cast<double>(std::count(first, first + S, vision));
    levels.push_back(t + v > 0 ? 2 * t * v / ((t + v) * (t + v)) : 0);
  }
  return {{kind.size(0)}, levels};
}

Value feature_mask(const Value& attention, const Value& picked, Index top) {
  if (attention.rank() != 4 || picked.rank() != 2 || attention.size(2) != attention.size(3) ||
      picked.size(0) != attention.size(0))
    throw InvalidArgument(fmt::format("[imf] attention has shape {} and picked {}: (B,H,V,V) and (B,P) are expected",
                                      to_string(attention.shape()), to_string(picked.shape())));
  const Value mean = tape::mean(attention, 1);  // [B,V,V]
  const Index B = mean.size(0), V = mean.size(1), P = picked.size(1);
  std::vector<double> mask(static_cast<std::size_t>(B * V), 0.0);
  for (Index b = 0; b < B; ++b)
    for (Index n = 0; n < P; ++n) {
      const auto p = static_cast<Index>(picked.data()[static_cast<std::size_t>(b * P + n)]);
      if (p < 0 || p >= V) throw InvalidArgument(fmt::format("[imf] token {} is picked, there are {}", p, V));
      const double* const row = &mean.data()[static_cast<std::size_t>((b * V + p) * V)];
      std::vector<Index> others;
      for (Index j = 0; j < V; ++j)
        if (j != p) others.push_back(j);
      std::stable_sort(others.begin(), others.end(), [&](Index i, Index j) { return row[i] > row[j]; });
      mask[static_cast<std::size_t>(b * V + p)] = 1;
      for (Index k = 0; k < std::min(top, V - 1); ++k)
        mask[static_cast<std::size_t>(b * V + others[static_cast<std::size_t>(k)])] = 1;
    }
  return {{B, V}, mask};
}

Value feature_loss(const Value& prediction, const Value& feature, const Value& mask) {
  const Value squares = tape::mean(tape::square(prediction - tape::detach(feature)), 2);  // [B,V]
  const double count = std::accumulate(mask.data().begin(), mask.data().end(), 0.0);
  return tape::sum(squares * mask) * Value(count > 0 ? 1 / count : 0);
}

mechanisms::GoldenReport check(const TensorFile& golden, DType dtype) {
  const mechanisms::GoldenMetadata metadata(golden);
  const auto inputs = mechanisms::tape_inputs(golden);
  const auto in = [&](const char* name) {
    mechanisms::golden_tensor(golden, name);
    return inputs.at(name);
  };
  const std::string kind = metadata.text("kind", "imf");
  mechanisms::TapeValues outputs;
  if (kind == "imf") {
    const Value attention = in("in.attention"), tokens = in("in.kind");
    outputs = {{"imf_layer", flow(attention, tokens, Flow::layer)},
               {"imf_residual", flow(attention, tokens, Flow::residual)},
               {"imf_rollout", flow(attention, tokens, Flow::rollout)},
               {"imf_head", flow_of_heads(attention, tokens)},
               {"chance", chance(tokens)}};
  } else if (kind == "mfr") {
    const Value mask = feature_mask(in("in.visual_attention"), in("in.picked"), metadata.integer("top_k", 1));
    outputs = {{"mask", mask}, {"loss", tape::reshape(feature_loss(in("in.prediction"), in("in.feature"), mask), {1})}};
  } else {
    throw DataError("", 0, 0, "metadata 'kind' has the unknown value '" + kind + "', expected imf or mfr");
  }
  // The recorded gradient of a feature loss is that of the loss itself.
  TensorFile with_cotangent = golden;
  if (kind == "mfr" && !golden.tensors.contains("cot.loss")) {
    Tensor one(DType::f64, {1});
    one.set(0, 1);
    with_cotangent.tensors.emplace("cot.loss", one);
  }
  mechanisms::GoldenReport report;
  report.results.push_back(
      mechanisms::compare_tape(with_cotangent, inputs, outputs, mechanisms::reference_run(dtype, 1e-10)));
  return report;
}

const Analysis& analysis() {
  static const Analysis value = [] {
    Analysis own;
    own.name = "imf";
    own.title = "Inter-modality flow";
    own.summary = "how much attention crosses between language and vision, per layer";
    own.bibtex = R"(@inproceedings{xue2021probing,
  title     = {Probing Inter-modality: Visual Parsing with Self-Attention for Vision-Language Pre-training},
  author    = {Xue, Hongwei and Huang, Yupan and Liu, Bei and Peng, Houwen and Fu, Jianlong and Li, Houqiang and
               Luo, Jiebo},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2021},
  note      = {arXiv:2106.13488}
})";
    own.golden = {{"imf", check}};
    own.on_model = on_model;
    own.on_tensors = on_tensors;
    own.takes_tables = false;
    return own;
  }();
  return value;
}

}  // namespace saddle::analysis::imf
