// Trained models as ONNX files, which other runtimes read.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "saddle/base/shape.hpp"
#include "saddle/nn/export.hpp"

namespace saddle::nn {

// What is exported, such as a model's forward. It must not decide by the values of its inputs.
using TensorFunction = std::function<std::vector<torch::Tensor>(const std::vector<torch::Tensor>&)>;

struct OnnxInput {
  std::string name;
  torch::Tensor example;      // of the shapes that the file takes, except for the batch size; values do not matter
  Index batch_dimension = 0;  // below 0: this input is the same for every batch size
};

struct OnnxOptions {
  torch::nn::Module* module = nullptr;  // whose parameters and buffers keep their names; is evaluating meanwhile
  std::vector<std::string> outputs;     // their names; without any: output, or output_0, output_1, ..
  bool dynamic_batch = true;            // false: the file takes the examples' batch size only
  std::string attention;                // a written form: a property of the file, and named in messages
  std::map<std::string, std::string> properties;  // others of the file
};

// Writes the function in opset 17, in float32, and replaces the file in one step once the ONNX checker is content.
// Throws NotSupported for what has no counterpart, with the operation's name.
SADDLE_TORCH_API void export_onnx(const TensorFunction& function, const std::vector<OnnxInput>& inputs,
                                  const OnnxOptions& options, const std::filesystem::path& path);

}  // namespace saddle::nn
