// What golden checks through torch share, and the checks themselves.
#pragma once

#include <torch/nn/module.h>

#include <utility>

#include "saddle/mechanisms/golden_tape.hpp"
#include "saddle/nn/golden/golden.hpp"

namespace saddle::nn {

using mechanisms::GoldenCheck;
using mechanisms::GoldenReport;
using mechanisms::TapeValues;
using torch::Tensor;

std::vector<GoldenCheck> declared_checks();
std::vector<GoldenCheck> layer_checks();
std::vector<GoldenCheck> time_checks();
std::vector<GoldenCheck> table_checks();

// How near a module must come: as near as the reference in double, 1e-4 in float.
mechanisms::GoldenRun module_run(DType dtype, double in_double);

// A check that says which of its cases it cannot run instead of failing: bf16, and whatever throws NotSupported.
GoldenCheck refusing(std::string mechanism, std::function<GoldenReport(const TensorFile&, DType)> check);

// A value as a tensor of a type, a leaf that asks for its gradient.
Tensor leaf_of(const tape::Value& value, torch::ScalarType type);
// 0 and 1 as flags; undefined for undefined.
Tensor flags_of(const tape::Value& value);

// Computations of torch as values on the tape: what they were made of, and what they gave.
class Traced {
 public:
  // A leaf of torch that holds the numbers of a value.
  void from(const tape::Value& value, const Tensor& leaf);
  // Copies the numbers of values into the parameters of a module, by their names. Biases that are not given are 0;
  // anything else that is missing, or too much, throws NotSupported.
  void fill(torch::nn::Module& module, const TapeValues& weights);
  // The outputs on the tape; their gradients go through torch's graph.
  TapeValues values(const std::map<std::string, Tensor>& outputs) const;

 private:
  std::vector<tape::Value> values_;
  std::vector<Tensor> leaves_;
};

}  // namespace saddle::nn
