// The two linear layers of an encoder block, named as in timm: fc1 and fc2.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <string>

#include "saddle/nn/dense/linear.hpp"

namespace saddle::nn {

struct SADDLE_TORCH_API MlpOptions {
  MlpOptions(int64_t width, int64_t hidden) : width_(width), hidden_(hidden) {}

  TORCH_ARG(int64_t, width);
  TORCH_ARG(int64_t, hidden);
  TORCH_ARG(std::string, activation) = "gelu";  // or "relu"
  TORCH_ARG(double, dropout) = 0;               // of the hidden layer, while training
};

class SADDLE_TORCH_API MlpImpl : public torch::nn::Cloneable<MlpImpl> {
 public:
  MlpImpl(int64_t width, int64_t hidden) : MlpImpl(MlpOptions(width, hidden)) {}
  explicit MlpImpl(const MlpOptions& options);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  // x [...,X] -> [...,X]; `out` goes to the second layer.
  Tensor forward(const Tensor& x, const LinearOptions& out = {});

  MlpOptions options;
  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
};

TORCH_MODULE(Mlp);

}  // namespace saddle::nn
