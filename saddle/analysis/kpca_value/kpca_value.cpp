#include "saddle/analysis/kpca_value/kpca_value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "saddle/base/error.hpp"

namespace saddle::analysis::kpca_value {

namespace {

namespace formula = mechanisms::kpca_value;
using Json = nlohmann::ordered_json;

std::string text(double number) { return std::isfinite(number) ? fmt::format("{:.3g}", number) : ""; }

Json to_json(double number) { return std::isfinite(number) ? Json(number) : Json(); }

Json to_json(const std::vector<double>& numbers) {
  Json list = Json::array();
  for (const double number : numbers) list.push_back(to_json(number));
  return list;
}

Json to_json(const Measures& m) {
  return {{"relative_spread", to_json(m.spread)},
          {"linear_cka", to_json(m.linear_cka)},
          {"cosine", to_json(m.cosine)},
          {"matched_cosine", to_json(m.matched_cosine)},
          {"relative_by_axis", to_json(m.relative)},
          {"absolute_by_axis", to_json(m.absolute)}};
}

formula::Normalisation normalisation_of(const std::string& name) {
  if (name == "kpca") return formula::Normalisation::kpca;
  if (name == "unit") return formula::Normalisation::unit;
  throw InvalidArgument(fmt::format("option 'normalisation' takes kpca or unit, found '{}'", name),
                        "kpca: axes of length 1 in the feature space; unit: eigenvectors of length 1");
}

// The value of a written form; nothing for one that says something else, as a file may.
std::optional<primal::Attention> parsed(const std::string& attention) {
  try {
    return mechanisms::parse(attention);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The keys with which exp(x.y/sqrt(D)), the kernel of the formula, is that of the layer: another scale makes them
// longer or shorter.
Array<double, 4> formula_keys(const ProbedLayer& layer) {
  Array<double, 4> keys = layer.parts.at("keys");
  std::optional<double> scale = layer.scale;
  if (const auto value = parsed(layer.attention); value && !scale)
    scale = std::get<primal::ExpDot>(value->kernel).scale;
  if (!scale) return keys;
  const double factor = std::sqrt(*scale * std::sqrt(static_cast<double>(keys.shape()[3])));
  for (double& number : keys) number *= factor;
  return keys;
}

// A layer that the formula speaks of, with what was measured of its heads.
struct MeasuredLayer {
  std::size_t layer = 0;
  std::string attention;
  std::vector<Compared> heads;
};

// The mean of a measure over heads that have it.
double mean_over(const std::vector<MeasuredLayer>& layers, bool random, double Measures::*member) {
  double sum = 0, count = 0;
  for (const MeasuredLayer& layer : layers)
    for (const Compared& head : layer.heads)
      if (const double value = (random ? head.random : head.learned).*member; std::isfinite(value)) {
        sum += value;
        ++count;
      }
  return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

// What the means say, in words. Close to the formula: both measures that have no free order of rows or signs say so.
std::string verdict(double cka, double chance_cka, double spread, double chance_spread) {
  if (cka >= 0.9 && spread <= 0.1) return "the values follow the formula";
  const bool alike = cka > chance_cka + 0.05, narrow = spread < 0.9 * chance_spread;
  if (!alike && !narrow) return "the values are no closer to the formula than random ones";
  if (alike != narrow)
    return fmt::format("the values do not follow the formula; only by their {} are they closer to it than random ones",
                       alike ? "CKA" : "spread");
  return "the values are closer to the formula than random ones, and do not follow it";
}

Map map_of(const std::vector<MeasuredLayer>& layers, std::size_t depth, const std::string& title,
           double Measures::*member) {
  std::size_t most = 0;
  for (const MeasuredLayer& layer : layers) most = std::max(most, layer.heads.size());
  Array<double, 2> values({static_cast<Index>(depth), static_cast<Index>(most)},
                          std::numeric_limits<double>::quiet_NaN());
  for (const MeasuredLayer& layer : layers)
    for (std::size_t h = 0; h < layer.heads.size(); ++h)
      values(static_cast<Index>(layer.layer), static_cast<Index>(h)) = layer.heads[h].learned.*member;
  return {title, "layer", "head", std::move(values), true};
}

// Means of the heads of each layer, learned and random.
void add_curves(Chart& chart, const std::vector<MeasuredLayer>& layers, const std::string& name,
                double Measures::*member) {
  for (const bool random : {false, true}) {
    Curve curve{name + (random ? ", random values" : ""), {}, random};
    for (const MeasuredLayer& layer : layers)
      if (const double mean = mean_over({layer}, random, member); std::isfinite(mean))
        curve.points.emplace_back(static_cast<double>(layer.layer), mean);
    chart.curves.push_back(std::move(curve));
  }
}

void describe(const std::vector<MeasuredLayer>& layers, std::size_t depth, Result& result) {
  Table table{"Heads, and random values in their places",
              {"layer", "head", "attention", "samples", "relative spread", "random", "linear CKA", "random",
               "matched cosine", "random", "cosine", "absolute spread, first axis", "lambda, first axis"},
              {}};
  for (const MeasuredLayer& layer : layers)
    for (std::size_t h = 0; h < layer.heads.size(); ++h) {
      const auto& [own, random] = layer.heads[h];
      const double absolute = own.absolute.empty() ? std::nan("") : own.absolute.front();
      const double lambda = own.lambda.empty() ? std::nan("") : own.lambda.front();
      table.rows.push_back({std::to_string(layer.layer), std::to_string(h), layer.attention,
                            std::to_string(own.samples), text(own.spread), text(random.spread), text(own.linear_cka),
                            text(random.linear_cka), text(own.matched_cosine), text(random.matched_cosine),
                            text(own.cosine), text(absolute), text(lambda)});
    }
  Chart alike{"How alike learned and formula values are: 1 is equal", "layer", "mean of heads", {}};
  add_curves(alike, layers, "linear CKA", &Measures::linear_cka);
  add_curves(alike, layers, "matched cosine", &Measures::matched_cosine);
  Chart spread{"Relative spread of gamma: 0 is an eigenvector", "layer", "mean of heads", {}};
  add_curves(spread, layers, "relative spread", &Measures::spread);
  result.tables.push_back(std::move(table));
  result.charts = {std::move(alike), std::move(spread)};
  result.maps = {map_of(layers, depth, "Linear CKA of learned and formula values", &Measures::linear_cka),
                 map_of(layers, depth, "Relative spread of gamma", &Measures::spread)};

  const auto mean = [&](bool random, double Measures::*member) { return mean_over(layers, random, member); };
  const double cka = mean(false, &Measures::linear_cka), chance_cka = mean(true, &Measures::linear_cka);
  const double cosine = mean(false, &Measures::matched_cosine), chance_cosine = mean(true, &Measures::matched_cosine);
  const double own = mean(false, &Measures::spread), chance = mean(true, &Measures::spread);
  result.figures = {{"linear CKA, mean of heads", cka},
                    {"matched cosine", cosine},
                    {"relative spread", own},
                    {"linear CKA of random values", chance_cka}};
  result.findings.push_back(fmt::format(
      "Linear CKA is {:.2f}, that of random values {:.2f}; matched cosine {:.2f} and {:.2f}; relative "
      "spread {} and {}: "
      "{}.",
      cka, chance_cka, cosine, chance_cosine, text(own), text(chance), verdict(cka, chance_cka, own, chance)));
}

Result on_model(const ProbedModel& model, Options& options) {
  if (model.probes.empty()) throw InvalidArgument("[kpca_value] the model was not probed");
  const std::string split = options.text("split", model.probes.back().split);
  const std::string normalisation = options.text("normalisation", "kpca");
  const Index most = options.integer("max_tokens", 512);
  options.check();
  const formula::Normalisation wanted = normalisation_of(normalisation);
  if (most < 2) throw InvalidArgument(fmt::format("option 'max_tokens' must be at least 2, found {}", most));
  const Probe& probe = model.probe(split);
  Result result;
  result.about =
      "How far the learned values of softmax attention agree with the values that attention would need to be kernel "
      "PCA "
      "of its keys, per layer and head, and beside them random values in their places. Linear CKA and matched cosine "
      "of "
      "1 and a relative spread of 0 are the formula's values; figures near those of random values say that the head "
      "knows nothing of it, which is no fault.";
  std::vector<MeasuredLayer> layers;
  std::vector<std::string> left_out;
  Json document = Json::array();
  for (std::size_t layer = 0; layer < probe.layers.size(); ++layer) {
    const ProbedLayer& own = probe.layers[layer];
    const auto skip = [&](const std::string& why) {
      left_out.push_back(fmt::format("Layer {} ({}) is left out: {}.", layer, own.attention, why));
    };
    if (const std::string why = obstacle(own.attention); !why.empty()) {
      skip(why);
      continue;
    }
    const auto keys = own.parts.find("keys"), values = own.parts.find("values");
    if (keys == own.parts.end() || values == own.parts.end()) {
      skip("it does not show its keys and values");
      continue;
    }
    MeasuredLayer measured{layer, own.attention,
                           measure(formula_keys(own), values->second, probe.lengths, most, wanted)};
    const Index B = keys->second.shape()[0], E = values->second.shape()[3];
    Index fewest = B;
    for (const Compared& head : measured.heads) fewest = std::min(fewest, head.learned.samples);
    if (fewest == 0) {
      skip(fmt::format("no sample has from {} to {} tokens and {} axes in every head, as values of width {} need",
                       E + 1, most, E, E));
      continue;
    }
    if (fewest < B)
      result.findings.push_back(
          fmt::format("Layer {}: {} of {} samples were measured in every head; the others have fewer than {} axes, or "
                      "more than {} tokens.",
                      layer, fewest, B, E, most));
    Json heads = Json::array();
    for (std::size_t h = 0; h < measured.heads.size(); ++h) {
      const auto& [learned, random] = measured.heads[h];
      Json one{{"head", h}, {"samples", learned.samples}, {"lambda", to_json(learned.lambda)}};
      one.update(to_json(learned));
      one["random"] = to_json(random);
      heads.push_back(std::move(one));
    }
    document.push_back({{"layer", layer}, {"attention", own.attention}, {"heads", std::move(heads)}});
    layers.push_back(std::move(measured));
  }
  if (layers.empty())
    throw NotSupported(fmt::format("{} has no layer that the formula of kernel PCA speaks of", model.name), left_out,
                       "plain softmax attention that sees all tokens, with more tokens than a head is wide, does");
  describe(layers, probe.layers.size(), result);
  result.findings.insert(result.findings.end(), left_out.begin(), left_out.end());
  result.findings.emplace_back(
      "The formula is exact; that trained attention follows it is disputed: a reproduction over ten vision "
      "transformers "
      "(arXiv:2505.07908) found a linear CKA of at most 0.11 and a matched cosine of at most 0.32.");
  result.json =
      Json{{"model", model.name}, {"split", split}, {"normalisation", normalisation}, {"layers", document}}.dump();
  return result;
}

}  // namespace

std::string obstacle(const std::string& attention) {
  try {
    if (mechanisms::find_layer(attention)) return "it is no softmax attention over keys";
  } catch (const Error&) {
  }
  const std::optional<primal::Attention> value = parsed(attention);
  if (!value) return "";  // keys and values that come with any other text are taken as those of softmax
  const auto* const sum = std::get_if<primal::RowSum>(&value->normaliser);
  if (!std::holds_alternative<primal::ExpDot>(value->kernel) || sum == nullptr || sum->den_eps.value_or(0) != 0)
    return "it is no softmax";
  if (!value->transforms.empty() || value->pooling) return "its keys are transformed or pooled before the softmax";
  if (!std::all_of(value->keys.begin(), value->keys.end(),
                   [](const primal::KeySet& keys) { return std::holds_alternative<primal::Padding>(keys); }))
    return "its queries do not see all keys";
  return "";
}

const Analysis& analysis() {
  static const Analysis value = [] {
    Analysis own;
    own.name = "kpca_value";
    own.title = "Values by kernel PCA";
    own.summary = "values of softmax heads against those that kernel PCA of their keys calls for; a disputed claim";
    own.bibtex = mechanisms::find("kpca_value").bibtex;
    own.on_model = on_model;
    return own;
  }();
  return value;
}

}  // namespace saddle::analysis::kpca_value
