// What is exported and run by another runtime. A new case is one more line in one of the lists.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "saddle/nn/onnx/export_onnx.hpp"

namespace saddle::nn::onnx_cases {

struct Case {
  std::string name;
  TensorFunction function;
  std::vector<std::string> inputs;
  std::function<std::vector<torch::Tensor>(Index B)> sample;  // inputs for B samples
  std::vector<Index> batch_dimensions = {};                   // without any: the first one of each input
  std::vector<std::string> outputs = {"y"};
  std::shared_ptr<torch::nn::Module> module = nullptr;
};

std::vector<Case> attention_cases();  // every written form of the mechanisms, and more, with and without masks
std::vector<Case> module_cases();     // attention with projections, and the layers around it
std::vector<Case> model_cases();

// [B,n] true for the first tokens of each sample; the second sample has none.
torch::Tensor sample_key_mask(Index B, Index n);

}  // namespace saddle::nn::onnx_cases
