// Spiking neurons and Shiftmax attention as functions of torch, with their gradients, and a meter for energy.
#pragma once

#include <torch/types.h>

#include <string>

#include "saddle/mechanisms/spiking/energy.hpp"
#include "saddle/mechanisms/spiking/neuron.hpp"
#include "saddle/nn/export.hpp"

namespace saddle::nn {

using torch::Tensor;

// x [S,..] in float or double -> spikes [T,..]; S is T, or 1 where all steps see the same.
SADDLE_TORCH_API Tensor fire(const Tensor& x, const mechanisms::spiking::Neuron& neuron, Index T);

// q k^T v of heads, in the cheaper order: q, k [G,N,D], v [G,N,E] -> [G,N,E]. Never in bfloat16, which holds whole
// numbers up to 256 only.
SADDLE_TORCH_API Tensor spike_product(const Tensor& q, const Tensor& k, const Tensor& v);

// Shiftmax(q k^T) v of G = T B H heads, H fastest: q, k [G,N,D], of whole numbers, v [G,N,E] -> [G,N,E]; key_mask [B,N]
// true where a key exists, or undefined. Weights are made a block at a time and again on the way back.
SADDLE_TORCH_API Tensor shiftmax_product(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& key_mask,
                                         Index heads);
// The weights themselves, [G,N,N], without a gradient.
SADDLE_TORCH_API Tensor shiftmax_weights(const Tensor& q, const Tensor& k, const Tensor& key_mask, Index heads);

// While one lives, spiking layers of this thread leave what they cost per sample.
class SADDLE_TORCH_API EnergyMeter {
 public:
  EnergyMeter();
  ~EnergyMeter();
  EnergyMeter(const EnergyMeter&) = delete;
  EnergyMeter& operator=(const EnergyMeter&) = delete;

  // A linear layer fed with spikes, or with real numbers, in T steps of `macs` each.
  void spikes_into(const std::string& layer, const Tensor& spikes, Index T, double macs);
  void numbers_into(const std::string& layer, Index T, double macs);
  void add(const std::string& layer, double firing_rate, const mechanisms::spiking::Operations& operations);

  std::string prefix;  // of the names that follow
  mechanisms::spiking::EnergyReport report;

  static EnergyMeter* current();

 private:
  EnergyMeter* before_;
};

// The share of numbers that are not 0.
SADDLE_TORCH_API double firing_rate(const Tensor& spikes);

}  // namespace saddle::nn
