// A function as the graph of torch operations that it runs.
#pragma once

#include <memory>

#include "saddle/nn/onnx/export_onnx.hpp"

namespace torch::jit {
struct Graph;
}

namespace saddle::nn::onnx {

// The graph's inputs are those of the function, then the parameters. Attention and dense layers run as plain
// operations. Throws NotSupported where a graph cannot tell what the function does.
std::shared_ptr<torch::jit::Graph> trace(const TensorFunction& function, const std::vector<torch::Tensor>& inputs,
                                         const std::vector<torch::Tensor>& parameters);

}  // namespace saddle::nn::onnx
