#include "saddle/nn/onnx/writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "saddle/base/error.hpp"

namespace saddle::nn::onnx {

namespace {

bool is_fixed(const Sizes& sizes) {
  return std::none_of(sizes.begin(), sizes.end(), [](const Size& size) { return size.per_sample; });
}

std::vector<Index> counts_of(const Sizes& sizes) {
  std::vector<Index> counts;
  for (const Size& size : sizes) counts.push_back(size.count);
  return counts;
}

}  // namespace

ElementType element_type(torch::ScalarType type) {
  switch (type) {
    case torch::kFloat32: return ElementType::float32;
    case torch::kUInt8: return ElementType::uint8;
    case torch::kInt32: return ElementType::int32;
    case torch::kInt64: return ElementType::int64;
    case torch::kBool: return ElementType::boolean;
    default:
      throw NotSupported(fmt::format("[onnx] found a tensor of {}: files are written in float32", c10::toString(type)),
                         {}, "convert the module and its inputs with to(torch::kFloat32) first");
  }
}

std::string Writer::unused_name(const std::string& prefix) {
  for (;;) {
    std::string name = fmt::format("{}_{}", prefix, counts_[prefix]++);
    if (taken_.insert(name).second) return name;
  }
}

Names Writer::nodes(const std::string& op, const Names& inputs, std::size_t outputs, const Attributes& attributes) {
  Names names;
  for (std::size_t i = 0; i < outputs; ++i) names.push_back(unused_name(op));
  file_.add_node(op, inputs, names, attributes);
  return names;
}

void Writer::initializer(const std::string& name, const torch::Tensor& tensor) {
  const torch::Tensor data = tensor.detach().cpu().contiguous();
  file_.add_initializer(name, {element_type(data.scalar_type()), data.sizes().vec()},
                        std::as_bytes(std::span(static_cast<const char*>(data.data_ptr()), data.nbytes())));
}

std::string Writer::stored(const torch::Tensor& tensor) {
  const std::pair key{tensor.scalar_type(), tensor.sizes().vec()};
  const auto [first, last] = stored_.equal_range(key);
  for (auto known = first; known != last; ++known)
    if (torch::equal(known->second.first, tensor)) return known->second.second;
  const std::string name = unused_name("constant");
  initializer(name, tensor);
  stored_.emplace(key, std::pair{tensor, name});
  return name;
}

std::string Writer::constant(const torch::Tensor& tensor) {
  constexpr Index small = 1024;  // elements that are not worth a node
  if (tensor.numel() <= small) return stored(tensor);
  torch::Tensor distinct = tensor;
  for (Index d = 0; d < tensor.dim(); ++d)
    if (torch::all(distinct == distinct.narrow(d, 0, 1)).item<bool>()) distinct = distinct.narrow(d, 0, 1);
  const std::string name = stored(distinct);
  return distinct.numel() == tensor.numel() ? name : node("Expand", {name, indices(tensor.sizes().vec())});
}

std::string Writer::scalar(double value, torch::ScalarType type) { return stored(torch::full({}, value, type)); }

std::string Writer::indices(const std::vector<Index>& values) { return stored(torch::tensor(values, torch::kInt64)); }

std::string Writer::batch_multiple(Index count) {
  std::string& name = batch_multiples_[count];
  if (!name.empty()) return name;
  if (count == 1) {
    name = node("Gather", {node("Shape", {batch_input_}), indices({batch_dimension_})}, {{"axis", Index{0}}});
  } else {
    name = node("Mul", {batch_multiple(1), indices({count})});
  }
  return name;
}

std::string Writer::sizes(const Sizes& values) {
  if (is_fixed(values)) return indices(counts_of(values));
  Names parts;
  for (const Size& size : values) parts.push_back(size.per_sample ? batch_multiple(size.count) : indices({size.count}));
  return parts.size() == 1 ? parts[0] : node("Concat", parts, {{"axis", Index{0}}});
}

std::string Writer::cast(const std::string& name, torch::ScalarType from, torch::ScalarType to) {
  if (from == to) return name;
  return node("Cast", {name}, {{"to", static_cast<Index>(element_type(to))}});
}

std::string Writer::filled(double value, torch::ScalarType type, const Sizes& values) {
  if (is_fixed(values)) return constant(torch::full(counts_of(values), value, type));
  return node("Expand", {scalar(value, type), sizes(values)});
}

std::string Writer::reshaped(const std::string& name, const Sizes& values) {
  std::vector<Index> counts = counts_of(values);
  const auto batches = std::count_if(values.begin(), values.end(), [](const Size& size) { return size.per_sample; });
  const bool empty = std::find(counts.begin(), counts.end(), 0) != counts.end();
  if (empty || batches > 1) return node("Reshape", {name, sizes(values)}, {{"allowzero", Index{empty}}});
  for (std::size_t d = 0; d < values.size(); ++d)
    if (values[d].per_sample) counts[d] = -1;
  return node("Reshape", {name, indices(counts)});
}

}  // namespace saddle::nn::onnx
