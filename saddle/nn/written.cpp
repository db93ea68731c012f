#include "saddle/nn/written.hpp"

#include <fmt/format.h>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/registry.hpp"

namespace saddle::nn {

const primal::Attention& parsed(const std::string& text) {
  thread_local std::map<std::string, primal::Attention> known;
  auto found = known.find(text);
  if (found == known.end()) {
    constexpr std::size_t most = 1000;
    if (known.size() >= most) known.clear();
    found = known.emplace(text, mechanisms::parse(text)).first;
  }
  return found->second;
}

std::map<std::string, torch::Tensor> named_parameters(const primal::Attention& value, const Dims& dims,
                                                      const std::vector<torch::Tensor>& tensors) {
  std::map<std::string, torch::Tensor> named;
  if (tensors.empty()) return named;
  auto expected = primal::parameters(value, dims);
  if (tensors.size() != expected.size()) std::erase_if(expected, [](const auto& info) { return !info.learnable; });
  if (tensors.size() != expected.size()) {
    std::string list;
    for (const auto& info : expected)
      list += fmt::format("{}{} {}", list.empty() ? "" : ", ", info.name, to_string(info.shape));
    throw InvalidArgument(fmt::format("[attention] {} parameters are given, {} expected: {}", tensors.size(),
                                      expected.size(), list.empty() ? "none" : list));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) named[expected[i].name] = tensors[i];
  return named;
}

std::map<std::string, torch::Tensor> learnable_parameters(const primal::Attention& value, Index H, Index D, Index E) {
  Dims dims;
  dims.H = H;
  dims.D = D;
  dims.E = E;
  std::map<std::string, torch::Tensor> found;
  for (const primal::ParameterInfo& info : primal::parameters(value, dims))
    if (info.learnable)
      found[info.name] = torch::tensor(info.initial).to(torch::get_default_dtype()).view(info.shape).clone();
  return found;
}

}  // namespace saddle::nn
