// Nodes and constants on their way into a file, under names that are not taken.
#pragma once

#include <torch/types.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "saddle/nn/onnx/model_file.hpp"
#include "saddle/nn/onnx/program.hpp"

namespace saddle::nn::onnx {

using Names = std::vector<std::string>;

// Throws NotSupported for types that are not written.
ElementType element_type(torch::ScalarType type);

class Writer {
 public:
  // At run time the batch size is read off dimension `batch_dimension` of `batch_input`.
  Writer(ModelFile& file, std::set<std::string> taken, std::string batch_input, Index batch_dimension)
      : file_(file),
        taken_(std::move(taken)),
        batch_input_(std::move(batch_input)),
        batch_dimension_(batch_dimension) {}

  Names nodes(const std::string& op, const Names& inputs, std::size_t outputs, const Attributes& attributes);
  std::string node(const std::string& op, const Names& inputs, const Attributes& attributes = {}) {
    return nodes(op, inputs, 1, attributes)[0];
  }
  void initializer(const std::string& name, const torch::Tensor& tensor);
  std::string constant(const torch::Tensor& tensor);  // equal ones are stored once, repeated rows too
  std::string scalar(double value, torch::ScalarType type);
  std::string indices(const std::vector<Index>& values);  // int64 [n]
  std::string sizes(const Sizes& values);                 // int64 [n], at run time
  std::string cast(const std::string& name, torch::ScalarType from, torch::ScalarType to);
  std::string filled(double value, torch::ScalarType type, const Sizes& sizes);
  std::string reshaped(const std::string& name, const Sizes& sizes);

 private:
  std::string unused_name(const std::string& prefix);
  std::string stored(const torch::Tensor& tensor);
  std::string batch_multiple(Index count);  // int64 [1]

  ModelFile& file_;
  std::set<std::string> taken_;
  std::string batch_input_;
  Index batch_dimension_;
  std::map<std::string, std::size_t> counts_;  // of names by prefix
  std::multimap<std::pair<torch::ScalarType, std::vector<Index>>, std::pair<torch::Tensor, std::string>> stored_;
  std::map<Index, std::string> batch_multiples_;
};

}  // namespace saddle::nn::onnx
