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

GoldenResult compare_tape(const TensorFile& golden, const TapeValues& inputs, const TapeValues& outputs,
                          double tolerance, std::string implementation) {
  std::vector<std::string> known;
  for (const auto& [name, value] : outputs) known.push_back("out." + name);
  require_outputs(golden, known);
  GoldenComparison comparison(std::move(implementation));
  std::vector<tape::Cotangent> roots;
  for (const auto& [name, tensor] : golden.tensors) {
    if (name.starts_with("out.")) {
      const tape::Value& value = outputs.at(name.substr(4));
      if (is_floating(tensor.dtype())) {
        comparison.compare(name, value.tensor(), tensor, tolerance);
      } else {  // whole numbers and flags are exact in double
        Tensor expected(DType::f64, tensor.shape());
        for (Index i = 0; i < tensor.size(); ++i) expected.set(i, tensor.at(i));
        comparison.require(name, golden_error(value.tensor(), expected), 0.5 * tolerance);
      }
    }
    if (name.starts_with("cot.")) {
      const auto found = outputs.find(name.substr(4));
      if (found == outputs.end())
        throw DataError("", 0, 0, "nothing here computes the output of " + name + ", known are " + join(known));
      roots.push_back({found->second, tape::Value(tensor).data()});
    }
  }
  tape::backward(roots);
  for (const auto& [name, tensor] : golden.tensors) {
    if (!name.starts_with("grad.")) continue;
    auto found = inputs.find("param." + name.substr(5));
    if (found == inputs.end()) found = inputs.find("in." + name.substr(5));
    if (found == inputs.end()) throw DataError("", 0, 0, "the case has " + name + " but no input of that name");
    comparison.compare(name, found->second.gradient_tensor(), tensor, tolerance);
  }
  return comparison.result();
}

}  // namespace saddle::mechanisms
