#include "saddle/analysis/energy/energy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"

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

Result on_model(const ProbedModel& model, Options& options) {
  options.check();
  std::vector<LayerEnergy> layers = mean_of(model.probes);
  number_blocks(layers);
  if (layers.empty())
    throw NotSupported(fmt::format("{} has no spiking layer, and energy is counted by spikes", model.name), {},
                       "models with spikes: --model spiking_vit, or --attention \"spiking(..)\" in any other");
  Result result;
  result.about =
      "What one sample would cost on hardware that adds up spikes (45 nm: 4.6 pJ a multiply-accumulate, 0.9 pJ an "
      "accumulate, 0.045 pJ a shift), layer by layer, as papers on spiking transformers count it. Low firing rates "
      "are good: the energy of a layer fed by spikes is proportional to the share of them that are not 0; a rate of "
      "1 means real numbers, which must be multiplied.";
  Table table{"Layers, for one sample", {"layer", "firing rate", "MACs", "ACs", "shifts", "pJ"}, {}};
  Chart rates{"Firing rate of the input of each layer",
              "layer, in the order of the table",
              "share that is not 0",
              {{"firing rate", {}}}};
  Chart energies{"Energy of each layer", "layer, in the order of the table", "pJ", {{"energy", {}}}};
  Json document{{"layers", Json::array()}};
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
  table.rows.push_back(row_of("all", "", total));
  document["total"] = to_json(total);
  result.tables.push_back(std::move(table));
  result.charts = {std::move(rates), std::move(energies)};
  result.findings.push_back(
      fmt::format("{:.4g} mJ a sample: {:.4g} multiply-accumulates of layers fed with real "
                  "numbers, {:.4g} synaptic operations, {:.4g} shifts",
                  total.millijoules(), total.macs, total.acs, total.shifts));
  result.figures = {{"pJ a sample", total.picojoules()}, {"synaptic operations", total.acs}};
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
    return own;
  }();
  return value;
}

}  // namespace saddle::analysis::energy
