// The flow in a trained model that says which of its tokens are language and which vision.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "saddle/analysis/imf/imf_internal.hpp"
#include "saddle/base/error.hpp"

namespace saddle::analysis::imf {

namespace {

using Json = nlohmann::ordered_json;
using tape::Value;

const Probe& probe_of(const ProbedModel& model, const std::string& split) {
  for (const Probe& each : model.probes)
    if (each.split == split) return each;
  throw InvalidArgument(fmt::format("option 'split' is '{}', expected train or test", split));
}

Value value_of(const Array<double, 4>& weights) {
  const auto& shape = weights.shape();
  return {Shape(shape.begin(), shape.end()), {weights.begin(), weights.end()}};
}

struct HeadFlows {
  std::string layer;
  std::vector<double> shares;
};

// One row per layer, 0 behind the last head of a layer that has fewer.
Map map_of(const std::vector<HeadFlows>& layers) {
  std::size_t most = 0;
  for (const HeadFlows& each : layers) most = std::max(most, each.shares.size());
  Map map{"IMF of single heads: rows are layers, columns heads", "layer", "head",
          Array<double, 2>({static_cast<Index>(layers.size()), static_cast<Index>(most)})};
  for (std::size_t l = 0; l < layers.size(); ++l)
    for (std::size_t h = 0; h < layers[l].shares.size(); ++h)
      map.values(static_cast<Index>(l), static_cast<Index>(h)) = layers[l].shares[h];
  return map;
}

}  // namespace

Result on_model(const ProbedModel& model, Options& options) {
  const std::string split = options.text("split", "test");
  options.check();
  const Probe& probe = probe_of(model, split);
  if (probe.kinds.empty())
    throw InvalidArgument(fmt::format("{} does not have tokens of language and of vision", model.name),
                          "imf looks into models of images with text, such as vision_language");
  const Index B = probe.kinds.shape()[0], S = probe.kinds.shape()[1];
  const Value kind({B, S}, {probe.kinds.begin(), probe.kinds.end()});
  std::vector<Value> means;
  std::vector<std::string> names, left_out, signs;
  std::vector<HeadFlows> heads;
  for (std::size_t layer = 0; layer < probe.layers.size(); ++layer) {
    const ProbedLayer& own = probe.layers[layer];
    const Array<double, 4> between = token_weights(probe, own);  // [B,H,S,S]
    if (between.empty() || between.shape()[2] != S) {
      left_out.push_back(fmt::format(
          "Layer {} ({}) has no weights between tokens and is left out: there is no rollout.", layer, own.attention));
      continue;
    }
    if (std::any_of(between.begin(), between.end(), [](double weight) { return weight < 0; }))
      signs.push_back(fmt::format("Layer {} ({}) has weights below 0: its shares may lie outside of 0 and 1.", layer,
                                  own.attention));
    const Value weights = value_of(between);
    names.push_back(std::to_string(layer));
    means.push_back(tape::mean(weights, 1, true));  // [B,1,S,S]
    const Index H = weights.size(1);
    const Value shares = tape::mean(flow_of_heads(tape::reshape(weights, {B, 1, H, S, S}), kind), 0);  // [1,H,3]
    HeadFlows flows{names.back(), {}};
    for (Index h = 0; h < H; ++h) flows.shares.push_back(shares.data()[static_cast<std::size_t>(3 * h)]);
    heads.push_back(std::move(flows));
  }
  if (means.empty())
    throw NotSupported(fmt::format("no layer of {} has weights between tokens", model.name), left_out,
                       "softmax and most declared attentions have them");
  std::vector<Flow> which{Flow::layer, Flow::residual};
  if (left_out.empty()) which.push_back(Flow::rollout);
  Result result = flows_of(tape::stack(means, 1), kind, names, which);
  Json json = Json::parse(result.json);
  const double level = json["chance"];
  for (std::size_t l = 0; l < names.size(); ++l) {
    const double share = json["flows"]["layer"][l][0];
    result.findings.push_back(
        level > 0 ? fmt::format("Layer {} lets {:.3f} cross, {:.2f} times what uniform attention would.", names[l],
                                share, share / level)
                  : fmt::format("Layer {}: nothing can cross, all tokens are of one kind.", names[l]));
  }
  for (const auto* notes : {&left_out, &signs})
    result.findings.insert(result.findings.end(), notes->begin(), notes->end());
  result.findings.emplace_back(reconstruction);
  result.maps.push_back(map_of(heads));
  Json of_heads = Json::array();
  for (const HeadFlows& each : heads) of_heads.push_back(each.shares);
  json["layer_names"] = names;
  json["heads"] = of_heads;
  json["model"] = model.name;
  json["split"] = split;
  result.json = json.dump();
  return result;
}

}  // namespace saddle::analysis::imf
