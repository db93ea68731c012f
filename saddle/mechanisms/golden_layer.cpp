#include "saddle/mechanisms/golden_layer.hpp"

#include "saddle/base/error.hpp"

namespace saddle::mechanisms {

LayerCase layer_case(const TensorFile& golden, LayerPtr layer, const std::string& heads) {
  const Shape& shape = golden_tensor(golden, "in.x").shape();
  if (shape.size() != 3)
    throw DataError("", 0, 0, "in.x has shape " + saddle::to_string(shape) + ", (B,N,X) is expected");
  LayerCase read;
  read.layer = std::move(layer);
  read.recorded = tape_inputs(golden);
  read.inputs.x = read.recorded.at("in.x");
  read.inputs.weights = without_prefix(read.recorded, "param.");
  read.inputs.place.N = shape[1];
  read.inputs.place.X = shape[2];
  read.inputs.place.H = GoldenMetadata(golden).integer(heads, 1);
  read.layer->check(read.inputs.place);
  return read;
}

GoldenCheck reference_check(const GoldenLayer& layer) {
  return {
      layer.mechanism, [layer](const TensorFile& golden, DType dtype) {
        const auto read = layer.read(golden);
        if (!read) throw DataError("", 0, 0, "the case is not one of a layer");
        LayerOutputs outputs = read->layer->reference(read->inputs);
        if (read->as_recorded) read->as_recorded(outputs);
        GoldenReport report;
        report.attention = read->layer->text();
        report.results.push_back(compare_tape(golden, read->recorded, outputs, reference_run(dtype, read->tolerance)));
        return report;
      }};
}

}  // namespace saddle::mechanisms
