#include "saddle/nn/onnx/step.hpp"

#include <fmt/format.h>

#include "saddle/base/error.hpp"

namespace saddle::nn::onnx {

void Step::refuse(const std::string& reason) const {
  throw NotSupported(fmt::format("[onnx] {}: {}", operation_.name, reason));
}

const Value& Step::argument(std::size_t i) const {
  if (i >= argument_count()) refuse("it is not written in this form");
  return program_.values[operation_.inputs[i]];
}

const c10::IValue& Step::constant(std::size_t i) const {
  if (!argument(i).is_constant) refuse(fmt::format("argument {} depends on the inputs or on the batch size", i + 1));
  return argument(i).computed[0];
}

bool Step::has(std::size_t i) const {
  return i < argument_count() && (argument(i).computed.empty() || !argument(i).computed[0].isNone());
}

torch::ScalarType Step::type(std::size_t i) const {
  if (is_tensor(i)) return argument(i).type;
  return constant(i).toScalar().type();
}

bool Step::is_all(std::size_t i, bool value) const {
  return argument(i).is_constant && is_tensor(i) && torch::all(constant(i).toTensor().eq(value)).item<bool>();
}

std::string Step::x(std::size_t i) {
  const Value& value = argument(i);
  auto& written = written_[operation_.inputs[i]];
  if (written.empty()) written.push_back({writer_.constant(constant(i).toTensor()), value.type, value.sizes});
  return written[0].name;
}

std::string Step::x(std::size_t i, torch::ScalarType type) {
  if (!argument(i).is_constant) return writer_.cast(x(i), this->type(i), type);
  const c10::IValue& value = constant(i);
  if (!value.isTensor()) return writer_.scalar(value.toScalar().to<double>(), type);
  const torch::Tensor tensor = value.toTensor();
  if (tensor.dim() == 0) return writer_.scalar(tensor.item<double>(), type);
  return tensor.scalar_type() == type ? x(i) : writer_.constant(tensor.to(type));
}

std::vector<Written> Step::list(std::size_t i) {
  const auto& written = written_[operation_.inputs[i]];
  if (written.empty()) refuse(fmt::format("argument {} is no list of tensors", i + 1));
  return written;
}

Index Step::integer(std::size_t i) const { return constant(i).toInt(); }

Size Step::size(std::size_t i) const {
  const Value& value = argument(i);
  if (value.computed.empty()) refuse(fmt::format("argument {} depends on the inputs", i + 1));
  return program_.merge(value.computed.front().toInt(), value.computed.back().toInt(),
                        "a number in " + operation_.name);
}

std::vector<Index> Step::integers(std::size_t i) const {
  const c10::IValue& value = constant(i);
  return value.isInt() ? std::vector<Index>{value.toInt()} : value.toIntVector();
}

Sizes Step::size_list(std::size_t i) const {
  const Value& value = argument(i);
  if (value.computed.empty()) refuse(fmt::format("argument {} depends on the inputs", i + 1));
  const auto first = value.computed.front().toIntVector(), last = value.computed.back().toIntVector();
  Sizes sizes;
  for (std::size_t d = 0; d < first.size(); ++d)
    sizes.push_back(program_.merge(first[d], last.at(d), "a number in " + operation_.name));
  return sizes;
}

double Step::number(std::size_t i) const { return constant(i).toScalar().to<double>(); }
bool Step::flag(std::size_t i) const { return constant(i).toBool(); }
std::string Step::text(std::size_t i) const { return constant(i).toStringRef(); }

Index Step::dimension(std::size_t i, Index rank) const {
  const Index d = integer(i);
  return d < 0 ? d + rank : d;
}

std::vector<Index> Step::dimensions(std::size_t i, Index rank) const {
  std::vector<Index> all = integers(i);
  for (Index& d : all)
    if (d < 0) d += rank;
  return all;
}

}  // namespace saddle::nn::onnx
