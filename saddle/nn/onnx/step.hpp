// One operation of the program on its way into a file: what its arguments are, and nodes out of them.
#pragma once

#include "saddle/nn/onnx/writer.hpp"

namespace saddle::nn::onnx {

// A tensor of the file.
struct Written {
  std::string name;
  torch::ScalarType type = torch::kFloat32;
  Sizes sizes;
};

class Step {
 public:
  // written: the tensors that stand for each value, one, or as many as a list has.
  Step(const Program& program, const Operation& operation, std::vector<std::vector<Written>>& written, Writer& writer)
      : program_(program), operation_(operation), written_(written), writer_(writer) {}

  [[noreturn]] void refuse(const std::string& reason) const;

  // Arguments, counted from 0. A tensor is given by its name in the file.
  std::size_t argument_count() const { return operation_.inputs.size(); }
  bool has(std::size_t i) const;  // it is there and not None
  bool is_tensor(std::size_t i) const { return argument(i).is_tensor; }
  torch::ScalarType type(std::size_t i) const;   // of a tensor or a number
  bool is_all(std::size_t i, bool value) const;  // a constant with this value throughout
  const Sizes& sizes(std::size_t i) const { return argument(i).sizes; }
  Index rank(std::size_t i) const { return static_cast<Index>(sizes(i).size()); }
  std::string x(std::size_t i);
  std::string x(std::size_t i, torch::ScalarType type);  // a number will do too
  std::vector<Written> list(std::size_t i);
  Index integer(std::size_t i) const;
  Size size(std::size_t i) const;
  std::vector<Index> integers(std::size_t i) const;  // a single number will do too
  Sizes size_list(std::size_t i) const;
  double number(std::size_t i) const;
  bool flag(std::size_t i) const;
  std::string text(std::size_t i) const;
  // Dimensions of a tensor, counted from its first one.
  Index dimension(std::size_t i, Index rank) const;
  std::vector<Index> dimensions(std::size_t i, Index rank) const;

  // The result, the first one if there are more.
  torch::ScalarType type() const { return result().type; }
  const Sizes& sizes() const { return result().sizes; }
  Index rank() const { return static_cast<Index>(sizes().size()); }

  Writer& write() { return writer_; }
  std::string node(const std::string& op, const Names& inputs, const Attributes& attributes = {}) {
    return writer_.node(op, inputs, attributes);
  }

 private:
  const Value& argument(std::size_t i) const;
  const Value& result() const { return program_.values[operation_.outputs[0]]; }
  const c10::IValue& constant(std::size_t i) const;

  const Program& program_;
  const Operation& operation_;
  std::vector<std::vector<Written>>& written_;
  Writer& writer_;
};

}  // namespace saddle::nn::onnx
