// Spiking self-attention as a torch module, in steps of time or as a layer of any host.
#pragma once

#include <torch/nn/modules/linear.h>

#include "saddle/mechanisms/spiking/spiking.hpp"
#include "saddle/nn/blocks/norm.hpp"
#include "saddle/nn/layer.hpp"

namespace saddle::mechanisms::spiking {

// Children q, k, v (but qkformer_token), proj and their batch norms q_bn, k_bn, v_bn, proj_bn.
class SADDLE_TORCH_API SpikingAttention : public nn::AttentionLayer {
 public:
  SpikingAttention(const Spiking& spiking, const LayerPlace& place);

  // x [B,N,X] at every step -> the mean over the steps, [B,N,X]. x [T,B,N,X] -> [T,B,N,X].
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& key_mask) override;
  // x [T,B,N,X], spikes or what this variant makes spikes of -> [T,B,N,X], without a residual.
  torch::Tensor over_time(const torch::Tensor& x);

  const Spiking& options() const { return spiking_; }
  const Plan& plan() const { return plan_; }

 private:
  using Tensor = torch::Tensor;

  // x [S,B,N,X], S = T or 1 for the same at every step.
  Tensor run(const Tensor& x, const Tensor& key_mask, Index T, bool spikes);
  Tensor projected(const Tensor& x, torch::nn::Linear& map, nn::Norm& norm) const;
  // Spikes behind the attention product [T,B,N,X]; q, k, v [T,B,N,X] or, of values, [S,B,N,X].
  Tensor attended(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& key_mask);
  Tensor product(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& key_mask);
  // [T B,H,N,N]: the mean over the steps is what a tap sees.
  Tensor weights(const Tensor& q, const Tensor& k, const Tensor& key_mask) const;

  Spiking spiking_;
  LayerPlace place_;
  Plan plan_;
  torch::nn::Linear q_{nullptr}, k_{nullptr}, v_{nullptr}, proj_{nullptr};
  nn::Norm q_bn_{nullptr}, k_bn_{nullptr}, v_bn_{nullptr}, proj_bn_{nullptr};
};

}  // namespace saddle::mechanisms::spiking
