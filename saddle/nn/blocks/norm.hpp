// Normalisation of tokens: over the features of each, or per feature over all tokens of the batch.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <string>

#include "saddle/nn/dense/layer_norm.hpp"

namespace saddle::nn {

using torch::Tensor;

struct SADDLE_TORCH_API NormOptions {
  explicit NormOptions(int64_t width) : width_(width) {}

  TORCH_ARG(int64_t, width);
  TORCH_ARG(std::string, kind) = "layer";  // or "batch": statistics over batch and time, padded steps included
  TORCH_ARG(double, eps) = 1e-5;
};

// Parameters and buffers are named as in torch's LayerNorm and BatchNorm1d.
class SADDLE_TORCH_API NormImpl : public torch::nn::Cloneable<NormImpl> {
 public:
  explicit NormImpl(int64_t width) : NormImpl(NormOptions(width)) {}
  explicit NormImpl(const NormOptions& options);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  // x [B,N,X] -> [B,N,X]. dtype of the result: by default bfloat16 under autocast to it, else as x.
  Tensor forward(const Tensor& x, c10::optional<torch::ScalarType> dtype = c10::nullopt);

  // The same, and x to go on with.
  NormedStream beside(const Tensor& x);

  NormOptions options;
  Tensor weight, bias;
  Tensor running_mean, running_var, num_batches_tracked;  // of batches

 private:
  Tensor shared_batch_norm(const Tensor& x);
};

TORCH_MODULE(Norm);

// While one lives, statistics of batches are those of the batch that several processes share: `sum` adds a tensor up
// over them, in place, and all of them must run the same norms in the same order, backward too.
class SADDLE_TORCH_API SharedBatches {
 public:
  explicit SharedBatches(std::function<void(Tensor&)> sum);
  ~SharedBatches();
  SharedBatches(const SharedBatches&) = delete;
  SharedBatches& operator=(const SharedBatches&) = delete;
};

}  // namespace saddle::nn
