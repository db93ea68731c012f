#include "saddle/train/probe.hpp"

#include <fmt/format.h>

#include "saddle/base/error.hpp"
#include "saddle/nn/models/reading.hpp"
#include "saddle/nn/models/spiking_vit.hpp"
#include "saddle/nn/spiking.hpp"
#include "saddle/nn/taps.hpp"
#include "saddle/nn/tensor.hpp"
#include "saddle/train/ask.hpp"
#include "saddle/train/batch.hpp"

namespace saddle::train {

namespace {

template <int Rank>
Array<double, Rank> array_of(const torch::Tensor& tensor) {
  return to_double<Rank>(nn::view_of(tensor.detach().to(torch::kFloat64).contiguous()));
}

// What the tokens of each sample are called, if the data know: columns of a table, or texts with their places.
std::vector<std::vector<std::string>> names_of(const data::Description& data, const data::Batch& batch, Index N) {
  std::vector<std::vector<std::string>> names;
  const bool table = static_cast<Index>(data.table.size()) == N;
  const bool texts = data.kind == data::Kind::tokens && !data.token_names.empty();
  if (!table && !texts) return names;
  for (Index b = 0; b < batch.size; ++b) {
    auto& own = names.emplace_back();
    for (Index i = 0; i < N; ++i) {
      const auto place = static_cast<std::size_t>(i);
      if (table) {
        own.push_back(data.table[place].name);
      } else {
        const auto token = i < batch.length
                               ? static_cast<std::size_t>(batch.tokens[static_cast<std::size_t>(b * batch.length + i)])
                               : 0;
        own.push_back(std::to_string(i) + ":" + (token < data.token_names.size() ? data.token_names[token] : "?"));
      }
    }
  }
  return names;
}

}  // namespace

analysis::Probe probe(const Trained& trained, data::DatasetPtr data, const std::vector<Index>& samples,
                      const std::string& split, bool with_parts) {
  const torch::NoGradGuard guard;
  trained.model->eval();
  analysis::Probe probe;
  probe.split = split;
  data::Loader loader(
      data, samples, {.batch = static_cast<Index>(samples.size()), .max_length = trained.max_length, .prefetch = false},
      trained.scaling);
  loader.start(0);
  data::Batch batch;
  if (!loader.next(batch)) return probe;
  probe.samples = batch.samples;
  const LabelledBatch tensors = to_tensors(batch, trained.data, trained.positions);
  nn::Taps taps(true, true, with_parts);
  const nn::EnergyMeter meter;
  trained.model->logits(tensors.inputs);
  probe.energy = meter.report.layers;
  probe.energy_of_all = dynamic_cast<const nn::SpikingVitImpl*>(trained.model.get()) != nullptr;

  // A pair of documents runs through the encoder twice; the first one is looked at.
  const std::vector<nn::AttentionOfLayer> attentions = trained.model->attentions();
  if (attentions.empty() || taps.layers.size() < attentions.size())
    throw NotSupported(fmt::format("the model '{}' does not show what its attention does", trained.model->name()), {},
                       "models with the usual encoder do, such as time_series or vision_transformer");
  const bool with_tokens = !taps.tokens.empty();
  if (with_tokens) probe.tokens = array_of<3>(taps.tokens[0]);
  const Index B = batch.size, N = with_tokens ? probe.tokens.shape()[1] : taps.layers.at(0).heads.size(2);
  const torch::Tensor kinds = trained.model->modalities(tensors.inputs);
  if (kinds.defined()) probe.kinds = array_of<2>(kinds);
  const torch::Tensor lengths = nn::attended_lengths(*trained.model, tensors.inputs, N);
  for (Index b = 0; b < B; ++b) {
    probe.labels.push_back(tensors.labels.defined() ? tensors.labels[b].item<Index>() : -1);
    probe.lengths.push_back(lengths[b].item<Index>());
  }
  for (std::size_t layer = 0; layer < attentions.size(); ++layer) {
    analysis::ProbedLayer& own = probe.layers.emplace_back();
    own.attention = attentions[layer].attention;
    if (with_tokens) own.tokens = array_of<3>(taps.tokens.at(layer + 1));
    own.heads = array_of<4>(taps.layers.at(layer).heads);
    if (taps.layers[layer].weights.defined()) own.weights = array_of<4>(taps.layers[layer].weights);
    for (const auto& [name, part] : taps.layers[layer].parts) own.parts.emplace(name, array_of<4>(part));
  }
  probe.first_token = nn::reads_first_token(*trained.model);
  probe.last_token = nn::reads_last_token(*trained.model);
  probe.names = names_of(trained.data, batch, N);
  probe.ask = asker(trained, tensors.inputs);
  return probe;
}

std::map<std::string, saddle::Tensor> plain_weights(const nn::Model& model) {
  std::map<std::string, saddle::Tensor> weights;
  for (const auto& item : model.named_parameters()) {
    const torch::Tensor dense = item.value().detach().to(torch::kFloat64).contiguous();
    saddle::Tensor plain(DType::f64, Shape(dense.sizes().begin(), dense.sizes().end()));
    std::copy_n(static_cast<const std::byte*>(dense.data_ptr()), plain.bytes().size(), plain.bytes().begin());
    weights.emplace(item.key(), std::move(plain));
  }
  return weights;
}

}  // namespace saddle::train
