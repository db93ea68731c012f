// Golden cases of layers, through the modules of their mechanisms.
#include "saddle/base/error.hpp"
#include "saddle/mechanisms/registry.hpp"
#include "saddle/nn/golden/golden_internal.hpp"
#include "saddle/nn/layer.hpp"
#include "saddle/nn/tensor.hpp"

namespace saddle::nn {

namespace {

// What the module of a layer gives, and what it shows on the way.
mechanisms::LayerOutputs module_outputs(const mechanisms::Layer& layer, const mechanisms::LayerInputs& given,
                                        torch::ScalarType type) {
  const AttentionLayerPtr module = make_layer(layer, given.place);
  module->to(type);
  Traced traced;
  traced.fill(*module, given.weights);
  const Tensor x = leaf_of(given.x, type);
  traced.from(given.x, x);
  Shown shown;
  Tensor y;
  if (given.context) {
    const Tensor context = leaf_of(given.context, type);
    traced.from(given.context, context);
    y = module->across(x, context);
  } else {
    y = module->forward(x, flags_of(given.key_mask));
  }
  shown.values["y"] = y;
  return traced.values(shown.values);
}

GoldenCheck module_check(const mechanisms::GoldenLayer& layer) {
  return refusing(layer.mechanism, [read = layer.read](const TensorFile& golden, DType dtype) {
    GoldenReport report;
    const auto found = read(golden);
    if (!found) return report;
    if (found->jumps && dtype != DType::f64) throw NotSupported("spikes of rounded inputs need not be the same", {});
    auto outputs = module_outputs(*found->layer, found->inputs, scalar_type(dtype));
    if (found->as_recorded) found->as_recorded(outputs);
    report.attention = found->layer->text();
    report.results.push_back(compare_tape(golden, found->recorded, outputs, module_run(dtype, found->tolerance)));
    return report;
  });
}

}  // namespace

std::vector<GoldenCheck> layer_checks() {
  std::vector<GoldenCheck> checks;
  for (const mechanisms::Mechanism* mechanism : mechanisms::all())
    for (const mechanisms::GoldenLayer& layer : mechanism->golden_layers) checks.push_back(module_check(layer));
  return checks;
}

}  // namespace saddle::nn
