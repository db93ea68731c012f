// A file of the Open Neural Network Exchange while it is put together. Knows nothing of torch.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "saddle/base/shape.hpp"

namespace saddle::nn::onnx {

inline constexpr int opset = 17, ir_version = 8;

// Numbered as in TensorProto.
enum class ElementType { float32 = 1, uint8 = 2, int32 = 6, int64 = 7, boolean = 9 };

// Elements and sizes of a tensor. A size below 0 is not fixed: -1 is the batch size, others have no name.
struct TensorType {
  ElementType element = ElementType::float32;
  std::vector<Index> sizes;
};

using Attribute = std::variant<Index, double, std::string, std::vector<Index>>;
using Attributes = std::map<std::string, Attribute>;

class ModelFile {
 public:
  ModelFile();
  ~ModelFile();
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;

  void set_name(const std::string& name);
  void set_property(const std::string& key, const std::string& value);
  void add_input(const std::string& name, const TensorType& type);
  void add_output(const std::string& name, const TensorType& type);
  // Bytes in little-endian order.
  void add_initializer(const std::string& name, const TensorType& type, std::span<const std::byte> bytes);
  // An empty name among the inputs leaves an optional one out.
  void add_node(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                const Attributes& attributes);

  // What a file holds. Throws NotSupported with the finding of the checker or of shape inference, if there is one.
  std::string checked_bytes();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace saddle::nn::onnx
