// From the module of a layer to its reference.
#pragma once

#include "saddle/nn/layer.hpp"

namespace saddle::nn {

// Undefined for an undefined tensor.
inline tape::Value on_tape(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  const Tensor dense = tensor.detach().to(torch::kFloat64).contiguous();
  const double* const data = dense.data_ptr<double>();
  return {Shape(dense.sizes().begin(), dense.sizes().end()), {data, data + dense.numel()}};
}

// What the reference is given so that it computes what module->forward(x, key_mask) does.
inline mechanisms::LayerInputs reference_inputs(const AttentionLayer& module, const mechanisms::LayerPlace& place,
                                                const Tensor& x, const Tensor& key_mask = {}) {
  mechanisms::LayerInputs inputs;
  inputs.x = on_tape(x);
  inputs.key_mask = on_tape(key_mask);
  inputs.place = place;
  for (const auto& item : module.named_parameters()) inputs.weights.emplace(item.key(), on_tape(item.value()));
  for (const auto& item : module.named_buffers()) inputs.weights.emplace(item.key(), on_tape(item.value()));
  return inputs;
}

}  // namespace saddle::nn
