#include "saddle/train/probe.hpp"

#include <algorithm>

#include "saddle/nn/taps.hpp"
#include "saddle/nn/tensor.hpp"
#include "saddle/train/batch.hpp"

namespace saddle::train {

namespace {

template <int Rank>
Array<double, Rank> array_of(const torch::Tensor& tensor) {
  return to_double<Rank>(nn::view_of(tensor.detach().to(torch::kFloat64).contiguous()));
}

}  // namespace

analysis::Probe probe(const Trained& trained, data::DatasetPtr data, const std::vector<Index>& samples,
                      const std::string& split) {
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
  nn::Taps taps(true, true);
  trained.model->logits(tensors.inputs);

  // A pair of documents runs through the encoder twice; the first one is looked at.
  const std::size_t depth = trained.model->blocks->size();
  probe.tokens = array_of<3>(taps.tokens.at(0));
  const Index B = probe.tokens.shape()[0], N = probe.tokens.shape()[1];
  const torch::Tensor& mask = tensors.inputs.mask;
  for (Index b = 0; b < B; ++b) {
    probe.labels.push_back(tensors.labels.defined() ? tensors.labels[b].item<Index>() : -1);
    const bool fits = mask.defined() && mask.size(1) == N;
    probe.lengths.push_back(fits ? std::max<Index>(1, mask[b].sum().item<Index>()) : N);
  }
  for (std::size_t layer = 0; layer < depth; ++layer) {
    analysis::ProbedLayer& own = probe.layers.emplace_back();
    own.attention = (*trained.model->blocks)[layer]->attn->options.attention();
    own.tokens = array_of<3>(taps.tokens.at(layer + 1));
    own.heads = array_of<4>(taps.layers.at(layer).heads);
    if (taps.layers[layer].weights.defined()) own.weights = array_of<4>(taps.layers[layer].weights);
  }
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
