// The same encoder as anybody would write it in torch: the peer of a training step.
#pragma once

#include <torch/torch.h>

namespace saddle::bench {

struct PlainBlockImpl : torch::nn::Module {
  PlainBlockImpl(int64_t width, int64_t given_heads) : heads(given_heads) {
    norm1 = register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    qkv = register_module("qkv", torch::nn::Linear(width, 3 * width));
    proj = register_module("proj", torch::nn::Linear(width, width));
    norm2 = register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    fc1 = register_module("fc1", torch::nn::Linear(width, 4 * width));
    fc2 = register_module("fc2", torch::nn::Linear(4 * width, width));
  }

  torch::Tensor attend(const torch::Tensor& x) {
    const int64_t B = x.size(0), N = x.size(1), X = x.size(2), D = X / heads;
    const auto parts = qkv(x).view({B, N, 3, heads, D}).permute({2, 0, 3, 1, 4}).unbind(0);
    const torch::Tensor scores = torch::matmul(parts[0], parts[1].transpose(2, 3)) / std::sqrt(static_cast<double>(D));
    return proj(torch::matmul(scores.softmax(-1), parts[2]).transpose(1, 2).reshape({B, N, X}));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = x + attend(norm1(x));
    return y + fc2(torch::gelu(fc1(norm2(y))));
  }

  int64_t heads;
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear qkv{nullptr}, proj{nullptr}, fc1{nullptr}, fc2{nullptr};
};
TORCH_MODULE(PlainBlock);

struct PlainModelImpl : torch::nn::Module {
  PlainModelImpl(int64_t width, int64_t heads, int64_t depth, int64_t classes) {
    for (int64_t layer = 0; layer < depth; ++layer)
      blocks.push_back(register_module("block" + std::to_string(layer), PlainBlock(width, heads)));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    head = register_module("head", torch::nn::Linear(width, classes));
  }

  // x [B,N,X] -> [B,classes]
  torch::Tensor forward(torch::Tensor x) {
    for (PlainBlock& block : blocks) x = block(x);
    return head(norm(x).mean(1));
  }

  std::vector<PlainBlock> blocks;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(PlainModel);

}  // namespace saddle::bench
