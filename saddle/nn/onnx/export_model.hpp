// Models of this library as ONNX files.
#pragma once

#include <filesystem>

#include "saddle/nn/models/model.hpp"

namespace saddle::nn {

// Writes the model's logits for batches of any size, sequences as long as the example's. The file's inputs are called
// as the parts of the batch that the example has: inputs, mask, second, second_mask; its output is called logits.
// Properties of the file: model (see describe) and attention.
SADDLE_TORCH_API void export_onnx(Model& model, const Batch& example, const std::filesystem::path& path);

}  // namespace saddle::nn
