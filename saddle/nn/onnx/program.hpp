// What traces of one function at one or two batch sizes say together: its operations, which of its values are constant,
// and which of its numbers grow with the batch.
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <string>
#include <vector>

#include "saddle/base/shape.hpp"

namespace torch::jit {
struct Graph;
struct Node;
}  // namespace torch::jit

namespace saddle::nn::onnx {

// A number that is fixed, or so many for each sample of the batch.
struct Size {
  Index count = 0;
  bool per_sample = false;

  friend bool operator==(const Size&, const Size&) = default;
};
using Sizes = std::vector<Size>;

struct Run {
  Index batch = 0;  // 0: the only run
  std::shared_ptr<torch::jit::Graph> graph;
};

struct Value {
  bool is_tensor = false;
  torch::ScalarType type = torch::kFloat32;  // of a tensor
  Sizes sizes;
  std::vector<c10::IValue> computed;  // in each run, unless it depends on inputs or parameters
  bool is_constant = false;           // the same in all runs
};

struct Operation {
  std::string name;  // aten::add
  std::vector<std::size_t> inputs, outputs;
  std::vector<torch::jit::Node*> nodes;  // in each run
};

struct Program {
  std::vector<Run> runs;
  std::vector<Value> values;
  std::vector<std::size_t> inputs, outputs;
  std::vector<Operation> operations;  // in order; those that the outputs need and that are no constants

  // The number that is first in the first run, second in the second. `what` is named if there is none.
  Size merge(Index first, Index second, const std::string& what) const;
};

// Throws NotSupported if the runs differ in more than numbers that are multiples of the batch size.
Program merge_runs(std::vector<Run> runs);

}  // namespace saddle::nn::onnx
