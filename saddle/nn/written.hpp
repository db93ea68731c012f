// Attention values by their written form, as operators and modules name them.
#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <vector>

#include "saddle/nn/export.hpp"
#include "saddle/primal/attention.hpp"

namespace saddle::nn {

// The value of a written form; parsed once per thread and text.
SADDLE_TORCH_API const primal::Attention& parsed(const std::string& text);

// Tensors given in the order of primal::parameters(), all of them or the learnable ones, with their names; none at all:
// the initial values hold. Throws InvalidArgument with the names and shapes that are expected.
SADDLE_TORCH_API std::map<std::string, torch::Tensor> named_parameters(const primal::Attention& value, const Dims& dims,
                                                                       const std::vector<torch::Tensor>& tensors);

// The learnable parameters of a value with their initial numbers, for H heads with keys of width D and values of E.
SADDLE_TORCH_API std::map<std::string, torch::Tensor> learnable_parameters(const primal::Attention& value, Index H,
                                                                           Index D, Index E);

}  // namespace saddle::nn
