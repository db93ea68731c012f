#include "saddle/nn/models/model.hpp"

#include "saddle/nn/models/parts_internal.hpp"

namespace saddle::nn {

std::vector<AttentionOfLayer> Model::attentions() const {
  std::vector<AttentionOfLayer> list;
  if (blocks.is_empty()) return list;
  Encoder layers = blocks;
  for (std::size_t layer = 0; layer < layers->size(); ++layer) {
    const SelfAttention& attention = layers[layer]->attn;
    list.push_back({attention->options.attention(), attention->value(), attention->options.heads()});
  }
  return list;
}

Tensor Model::modalities(const Batch&) const { return {}; }

std::shared_ptr<torch::nn::Module> Model::clone(const c10::optional<torch::Device>& device) const {
  const std::shared_ptr<Model> copy = fresh();
  copy->copy_from(*this, device);
  return copy;
}

void Model::clone_(torch::nn::Module& other, const c10::optional<torch::Device>& device) { copy_from(other, device); }

// `other` has the same options.
void Model::copy_from(const torch::nn::Module& other, const c10::optional<torch::Device>& device) {
  const torch::NoGradGuard guard;
  const auto copy = [&](torch::OrderedDict<std::string, Tensor> to,
                        const torch::OrderedDict<std::string, Tensor>& from) {
    for (const auto& item : from) {
      const Tensor& tensor = item.value();
      to[item.key()].set_data(device && tensor.device() != *device ? tensor.to(*device) : tensor.clone());
      to[item.key()].set_requires_grad(tensor.requires_grad());
    }
  };
  copy(named_parameters(), other.named_parameters());
  copy(named_buffers(), other.named_buffers());
  set_training(*this, training_of(other));
}

}  // namespace saddle::nn
