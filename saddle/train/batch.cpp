#include "saddle/train/batch.hpp"

#include <torch/nn/functional/loss.h>
#include <torch/nn/functional/padding.h>

#include <cmath>
#include <numbers>

namespace saddle::train {

namespace {

namespace F = torch::nn::functional;

template <class T>
Tensor wrap(std::vector<T>& values, const std::vector<int64_t>& shape, torch::ScalarType type) {
  return torch::from_blob(values.data(), shape, type);
}

Tensor padded(const Tensor& x, Index length) {
  return x.size(1) >= length ? x : F::pad(x, F::PadFuncOptions({0, length - x.size(1)}));
}

// Gamma(alpha, 1) by Marsaglia and Tsang (2000).
double gamma(Stream& stream, double alpha) {
  if (alpha < 1) {
    const double u = 1 - stream.uniform();
    return gamma(stream, alpha + 1) * std::pow(u, 1 / alpha);
  }
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = stream.normal(), v = std::pow(1 + c * x, 3);
    const double u = 1 - stream.uniform();
    if (v > 0 && std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

}  // namespace

LabelledBatch to_tensors(data::Batch& batch, const data::Description& data, Index positions) {
  const Index B = batch.size, N = batch.length;
  LabelledBatch tensors;
  tensors.labels = wrap(batch.labels, {B}, torch::kInt64);
  switch (data.kind) {
    case data::Kind::image:
      tensors.inputs.inputs = wrap(batch.values, {B, data.channels, data.rows, data.columns}, torch::kFloat32);
      break;
    case data::Kind::series:
      tensors.inputs.inputs = wrap(batch.values, {B, N, data.channels}, torch::kFloat32);
      tensors.inputs.mask = wrap(batch.mask, {B, N}, torch::kBool);
      break;
    default:
      tensors.inputs.inputs = padded(wrap(batch.tokens, {B, N}, torch::kInt64), positions);
      tensors.inputs.mask = padded(wrap(batch.mask, {B, N}, torch::kBool), positions);
      if (data.kind == data::Kind::events)
        tensors.inputs.times = padded(wrap(batch.times, {B, N}, torch::kFloat64), positions);
      if (data.kind == data::Kind::image_text)
        tensors.inputs.images = wrap(batch.values, {B, data.channels, data.rows, data.columns}, torch::kFloat32);
      if (data.kind == data::Kind::pair) {
        const Index M = batch.second_length;
        tensors.inputs.second = padded(wrap(batch.second, {B, M}, torch::kInt64), positions);
        tensors.inputs.second_mask = padded(wrap(batch.second_mask, {B, M}, torch::kBool), positions);
      }
  }
  // A mask that hides nothing would only cost.
  if (tensors.inputs.mask.defined() && tensors.inputs.mask.all().item<bool>()) tensors.inputs.mask = Tensor();
  return tensors;
}

LabelledBatch slice(const LabelledBatch& batch, Index first, Index size) {
  LabelledBatch part = batch;
  for (Tensor* tensor : {&part.inputs.inputs, &part.inputs.mask, &part.inputs.second, &part.inputs.second_mask,
                         &part.inputs.times, &part.inputs.images, &part.labels, &part.partners})
    if (tensor->defined()) *tensor = tensor->narrow(0, first, size);
  return part;
}

void mix(LabelledBatch& batch, double alpha, Stream stream) {
  const double a = gamma(stream, alpha), b = gamma(stream, alpha);
  batch.share = a + b > 0 ? a / (a + b) : 1;
  std::vector<int64_t> order(static_cast<std::size_t>(batch.size()));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  stream.shuffle(order);
  const Tensor partner = torch::tensor(order, torch::kInt64);
  batch.partners = batch.labels.index_select(0, partner);
  batch.inputs.inputs =
      batch.share * batch.inputs.inputs + (1 - batch.share) * batch.inputs.inputs.index_select(0, partner);
  if (batch.inputs.mask.defined())
    batch.inputs.mask = batch.inputs.mask.logical_or(batch.inputs.mask.index_select(0, partner));
}

Tensor loss_sum(const Tensor& logits, const LabelledBatch& batch, double label_smoothing) {
  const auto options = F::CrossEntropyFuncOptions().reduction(torch::kSum).label_smoothing(label_smoothing);
  const Tensor scores = logits.to(torch::kFloat32);
  const Tensor own = F::cross_entropy(scores, batch.labels, options);
  if (!batch.partners.defined()) return own;
  return batch.share * own + (1 - batch.share) * F::cross_entropy(scores, batch.partners, options);
}

}  // namespace saddle::train
