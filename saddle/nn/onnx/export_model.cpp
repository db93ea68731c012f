#include "saddle/nn/onnx/export_model.hpp"

#include <fmt/format.h>

#include "saddle/base/error.hpp"
#include "saddle/nn/models/registry.hpp"
#include "saddle/nn/onnx/export_onnx.hpp"

namespace saddle::nn {

void export_onnx(Model& model, const Batch& example, const std::filesystem::path& path) {
  if (example.times.defined())
    throw NotSupported(
        fmt::format("[onnx] {} takes sines of times in float64, and files are written in float32", model.name()));
  std::vector<OnnxInput> inputs;
  std::vector<Tensor Batch::*> parts;
  for (const auto& [name, part] : {std::pair{"inputs", &Batch::inputs},
                                   {"mask", &Batch::mask},
                                   {"second", &Batch::second},
                                   {"second_mask", &Batch::second_mask},
                                   {"images", &Batch::images}}) {
    if (!(example.*part).defined()) continue;
    inputs.push_back({name, example.*part});
    parts.push_back(part);
  }
  OnnxOptions options;
  options.module = &model;
  options.outputs = {"logits"};
  options.properties["model"] = describe(model, -1);
  for (const OptionValue& option : model.option_values())
    if (option.name == "attention") options.attention = option.value;
  const auto logits = [&](const std::vector<Tensor>& tensors) {
    Batch batch;
    for (std::size_t i = 0; i < parts.size(); ++i) batch.*parts[i] = tensors[i];
    return std::vector<Tensor>{model.logits(batch)};
  };
  export_onnx(logits, inputs, options, path);
}

}  // namespace saddle::nn
