// Golden cases of layers, as a layer with its inputs: for the reference, and for whatever else computes layers.
#pragma once

#include <functional>
#include <optional>

#include "saddle/mechanisms/golden_tape.hpp"
#include "saddle/mechanisms/layer.hpp"

namespace saddle::mechanisms {

struct LayerCase {
  LayerPtr layer;
  LayerInputs inputs;   // made of what is recorded
  TapeValues recorded;  // in.* and param.* by their names, where gradients are compared
  double tolerance = 1e-10;
  // Brings what a layer gives into the names and shapes of the case.
  std::function<void(LayerOutputs&)> as_recorded = {};
  // Outputs jump: inputs rounded to float need not give the same.
  bool jumps = false;
};

// Reads the cases of one name. Nothing: the case is not one of a layer. Throws NotSupported where no written form says
// what the case does.
struct GoldenLayer {
  std::string mechanism;
  std::function<std::optional<LayerCase>(const TensorFile&)> read;
};

// in.x [B,N,X], param.* by their names, the heads by metadata `heads`; the layer can stand there, or InvalidArgument is
// thrown. The rest is left to whoever knows the mechanism.
SADDLE_API LayerCase layer_case(const TensorFile& golden, LayerPtr layer, const std::string& heads);

// Recomputes a case by the references of layers.
SADDLE_API GoldenCheck reference_check(const GoldenLayer& layer);

}  // namespace saddle::mechanisms
