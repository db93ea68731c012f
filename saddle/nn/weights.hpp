// Weights of modules in safetensors files, under their dotted names.
#pragma once

#include <torch/arg.h>
#include <torch/nn/module.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "saddle/nn/export.hpp"

namespace saddle::nn {

// All parameters and buffers, dense and in their own dtype; the file is replaced as a whole or not at all. Metadata get
// "format": "pt" unless they have a format. Names of one and the same tensor (tied weights) are saved once, under the
// first of them in alphabetical order; each of the others becomes a metadata key with that name as value, as
// safetensors.torch does it. Throws InvalidArgument for dtypes other than float64, float32, bfloat16, int64, int32,
// uint8 and bool.
SADDLE_TORCH_API void save_weights(const torch::nn::Module& module, const std::filesystem::path& path,
                                   const std::map<std::string, std::string>& metadata = {});

struct SADDLE_TORCH_API LoadWeightsOptions {
  TORCH_ARG(bool, strict) = true;       // names missing in the file, or unexpected there, are an error
  TORCH_ARG(std::string, prefix) = "";  // of the module's names in the file; names without it are not looked at
  TORCH_ARG(bool, cast) = false;        // floating values may be of another floating dtype than the module's
};

// What did not match; empty if the loading was strict.
struct LoadedWeights {
  std::vector<std::string> missing;     // in the file: these kept their values; names of the module
  std::vector<std::string> unexpected;  // in the file: these were not used; names of the file
  std::map<std::string, std::string> metadata;
};

// Copies the values into the module's own tensors, wherever they live and however they are strided; torch counts it as
// a change of each. Tied weights are found under any of their names. A file that does not fit is refused with one
// DataError that names everything, before anything is changed.
SADDLE_TORCH_API LoadedWeights load_weights(torch::nn::Module& module, const std::filesystem::path& path,
                                            const LoadWeightsOptions& options = {});

}  // namespace saddle::nn
