#include "saddle/mechanisms/golden_tape.hpp"

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"

namespace saddle::mechanisms {

TapeValues tape_inputs(const TensorFile& golden) {
  TapeValues values;
  for (const auto& [name, tensor] : golden.tensors)
    if (name.starts_with("in.") || name.starts_with("param.")) values.emplace(name, tape::Value(tensor));
  return values;
}

TapeValues without_prefix(const TapeValues& values, const std::string& prefix) {
  TapeValues found;
  for (const auto& [name, value] : values)
    if (name.starts_with(prefix)) found.emplace(name.substr(prefix.size()), value);
  return found;
}

GoldenRun reference_run(DType asked, double tolerance) {
  return {asked == DType::f64 ? "reference" : "reference (runs in f64 only)", tolerance};
}

GoldenResult compare_tape(const TensorFile& golden, const TapeValues& inputs, const TapeValues& outputs,
                          const GoldenRun& run) {
  std::vector<std::string> known;
  for (const auto& [name, value] : outputs) known.push_back("out." + name);
  if (run.coverage == Coverage::every_output) require_outputs(golden, known);
  GoldenComparison comparison(run.implementation);
  std::vector<tape::Cotangent> roots;
  for (const auto& [name, tensor] : golden.tensors) {
    if (name.starts_with("out.")) {
      const auto found = outputs.find(name.substr(4));
      if (found == outputs.end()) continue;
      const tape::Value& value = found->second;
      if (is_floating(tensor.dtype())) {
        comparison.compare(name, value.tensor(), tensor, run.tolerance);
      } else {  // whole numbers and flags are exact in double
        Tensor expected(DType::f64, tensor.shape());
        for (Index i = 0; i < tensor.size(); ++i) expected.set(i, tensor.at(i));
        comparison.require(name, golden_error(value.tensor(), expected), 0.5 * run.tolerance);
      }
    }
    if (name.starts_with("cot.")) {
      const auto found = outputs.find(name.substr(4));
      if (found == outputs.end())
        throw DataError("", 0, 0, "nothing here computes the output of " + name + ", known are " + join(known));
      roots.push_back({found->second, tape::Value(tensor).data()});
    }
  }
  if (comparison.result().worst_tensor.empty())
    throw DataError("", 0, 0, "the case records none of " + join(known) + ", so there is nothing to compare");
  tape::backward(roots);
  for (const auto& [name, tensor] : golden.tensors) {
    if (!name.starts_with("grad.")) continue;
    auto found = inputs.find("param." + name.substr(5));
    if (found == inputs.end()) found = inputs.find("in." + name.substr(5));
    if (found == inputs.end()) throw DataError("", 0, 0, "the case has " + name + " but no input of that name");
    comparison.compare(name, found->second.gradient_tensor(), tensor, run.tolerance);
  }
  return comparison.result();
}

}  // namespace saddle::mechanisms
