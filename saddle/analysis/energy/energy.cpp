#include "saddle/analysis/energy/energy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/mechanisms/layer.hpp"

namespace saddle::analysis::energy {

namespace {

using Json = nlohmann::ordered_json;
using mechanisms::spiking::LayerEnergy;
using mechanisms::spiking::Operations;

Json to_json(const Operations& operations) {
  return {{"macs", operations.macs},
          {"acs", operations.acs},
          {"shifts", operations.shifts},
          {"picojoules", operations.picojoules()}};
}

std::vector<std::string> row_of(const std::string& name, const std::string& rate, const Operations& o) {
  return {name,
          rate,
          fmt::format("{:.4g}", o.macs),
          fmt::format("{:.4g}", o.acs),
          fmt::format("{:.4g}", o.shifts),
          fmt::format("{:.4g}", o.picojoules())};
}

// Blocks that are made alike call their layers alike: the first one is block 0.
void number_blocks(std::vector<LayerEnergy>& layers) {
  std::map<std::string, Index> seen;
  for (const LayerEnergy& layer : layers) ++seen[layer.name];
  const bool alike = std::any_of(seen.begin(), seen.end(), [](const auto& each) { return each.second > 1; });
  seen.clear();
  for (LayerEnergy& layer : layers)
    if (const Index block = seen[layer.name]++; alike) layer.name = fmt::format("block {}: {}", block, layer.name);
}

// Layers whose attention has no spikes, as "layer 0 (softmax)".
std::vector<std::string> layers_without_spikes(const Probe& probe) {
  std::vector<std::string> names;
  for (std::size_t layer = 0; layer < probe.layers.size(); ++layer) {
    const std::string& attention = probe.layers[layer].attention;
    const auto found = mechanisms::find_layer(attention);
    if (!found || found->name() != "spiking") names.push_back(fmt::format("layer {} ({})", layer, attention));
  }
  return names;
}

// What is in the list and what is not; a total says nothing without it.
std::string counted_words(const Probe& probe) {
  if (probe.energy_of_all)
    return "Counted is every linear layer, convolution and product of the model; not the norms, neurons and residuals.";
  const auto silent = layers_without_spikes(probe);
  return "Counted are the spiking attentions alone. Not counted is all else that this model computes with real "
         "numbers: embedding, two-layer networks, norms and head" +
         (silent.empty() ? "" : ", and the attention of " + join(silent)) +
         ". So the total is not that of the model; a model of spikes throughout is spiking_vit.";
}

Result on_model(const ProbedModel& model, Options& options) {
  options.check();
  std::vector<LayerEnergy> layers = mean_of(model.probes);
  number_blocks(layers);
  if (layers.empty())
    throw NotSupported(fmt::format("{} has no spiking layer, and energy is counted by spikes", model.name), {},
                       "models with spikes: --model spiking_vit, or --attention \"spiking(..)\" in any other");
  const bool whole =
      std::all_of(model.probes.begin(), model.probes.end(), [](const Probe& probe) { return probe.energy_of_all; });
  const std::string what = whole ? "the model" : "the spiking attentions of the model, and nothing else of it,";
  Result result;
  result.about = fmt::format(
      "What {} would cost for one sample on hardware that adds up spikes (45 nm: 4.6 pJ a multiply-accumulate, 0.9 pJ "
      "an accumulate, 0.045 pJ a shift), layer by layer, as papers on spiking transformers count it. Low firing rates "
      "are good: the energy of a layer fed by spikes is proportional to the share of them that are not 0; a rate of "
      "1 means real numbers, which must be multiplied.",
      what);
  Table table{"Layers, for one sample", {"layer", "firing rate", "MACs", "ACs", "shifts", "pJ"}, {}};
  Chart rates{"Firing rate of the input of each layer",
              "layer, in the order of the table",
              "share that is not 0",
              {{"firing rate", {}}}};
  Chart energies{"Energy of each layer", "layer, in the order of the table", "pJ", {{"energy", {}}}};
  Json document{{"counted", whole ? "model" : "spiking attentions"}, {"layers", Json::array()}};
  Operations total;
  double number = 0;
  for (const LayerEnergy& layer : layers) {
    table.rows.push_back(row_of(layer.name, fmt::format("{:.4f}", layer.firing_rate), layer.operations));
    rates.curves[0].points.emplace_back(number, layer.firing_rate);
    energies.curves[0].points.emplace_back(number++, layer.operations.picojoules());
    Json one{{"layer", layer.name}, {"firing_rate", layer.firing_rate}};
    one.update(to_json(layer.operations));
    document["layers"].push_back(std::move(one));
    total += layer.operations;
  }
  table.rows.push_back(row_of(whole ? "all" : "all spiking attentions", "", total));
  document["total"] = to_json(total);
  result.tables.push_back(std::move(table));
  result.charts = {std::move(rates), std::move(energies)};
  result.findings.push_back(fmt::format(
      "{:.4g} mJ a sample for {}: {:.4g} multiply-accumulates of layers fed with real "
      "numbers, {:.4g} synaptic operations, {:.4g} shifts",
      total.millijoules(), whole ? "the model" : "its spiking attentions", total.macs, total.acs, total.shifts));
  result.findings.push_back(counted_words(model.probes.front()));
  // Totals of different things have different names, so that they are not compared with each other.
  const std::string alone = whole ? "" : ", spiking attentions alone";
  result.figures = {{"pJ a sample" + alone, total.picojoules()}, {"synaptic operations" + alone, total.acs}};
  result.json = document.dump();
  return result;
}

}  // namespace

std::vector<LayerEnergy> mean_of(const std::vector<Probe>& probes) {
  std::vector<LayerEnergy> mean;
  double samples = 0;
  for (const Probe& probe : probes) samples += static_cast<double>(probe.samples.size());
  for (const Probe& probe : probes) {
    const double share = static_cast<double>(probe.samples.size()) / samples;
    if (&probe == &probes.front()) {
      for (const LayerEnergy& layer : probe.energy) mean.push_back({layer.name, 0, {}});
    }
    if (probe.energy.size() != mean.size())
      throw InvalidArgument(fmt::format("[energy] {} layers on the {} split and {} on the {} split",
                                        probe.energy.size(), probe.split, mean.size(), probes.front().split));
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const LayerEnergy& own = probe.energy[i];
      mean[i].firing_rate += share * own.firing_rate;
      mean[i].operations += {share * own.operations.macs, share * own.operations.acs, share * own.operations.shifts};
    }
  }
  return mean;
}

const Analysis& analysis() {
  static const Analysis value = [] {
    Analysis own;
    own.name = "energy";
    own.title = "Energy of spikes";
    own.summary = "firing rates, operations and energy of the layers of a spiking model, by the counts of the papers";
    own.bibtex = R"(@inproceedings{zhou2023spikformer,
  title     = {Spikformer: When Spiking Neural Network Meets Transformer},
  author    = {Zhou, Zhaokun and Zhu, Yuesheng and He, Chao and Wang, Yaowei and Yan, Shuicheng and Tian, Yonghong and
               Yuan, Li},
  booktitle = {International Conference on Learning Representations},
  year      = {2023},
  note      = {arXiv:2209.15425}
})";
    own.on_model = on_model;
    own.needs_model = true;
    own.takes_tables = false;
    return own;
  }();
  return value;
}

}  // namespace saddle::analysis::energy
