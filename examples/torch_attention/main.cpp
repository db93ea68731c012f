#include <torch/torch.h>
#include <saddle/torch.hpp>

#include <iostream>

int main() {
  // A function of q, k, v (B,H,N,D) with any strides; gradients come from the fused backward pass.
  const auto draw = [] { return torch::randn({2, 8, 197, 24}, torch::requires_grad()); };
  const torch::Tensor q = draw(), k = draw(), v = draw();
  const torch::Tensor y = saddle::nn::attention(saddle::nn::parsed("softmax+bn(beta=0.6)"), {q, k, v}).y;
  y.sum().backward();

  // A module that takes and gives what torch::nn::MultiheadAttention does, with the same names of weights.
  using Options = saddle::nn::MultiheadAttentionOptions;
  saddle::nn::MultiheadAttention layer(Options(192, 8).attention("attention_bn_sh(learn=head)").batch_first(true));
  const torch::Tensor tokens = torch::randn({2, 197, 192});
  const auto [output, weights] = layer->forward(tokens, tokens, tokens);
  std::cout << layer << "\noutput " << output.sizes() << ", weights " << weights.sizes() << '\n';
}
