#include "saddle/nn/onnx/export_onnx.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "saddle/base/error.hpp"
#include "saddle/io/atomic_file.hpp"
#include "saddle/nn/models/parts_internal.hpp"
#include "saddle/nn/onnx/operators.hpp"
#include "saddle/nn/onnx/trace.hpp"

namespace saddle::nn {

namespace {

using namespace onnx;
using torch::Tensor;

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// Parameters and buffers, each once though several names may share it.
NamedTensors tensors_of(const torch::nn::Module* module) {
  NamedTensors all;
  if (module == nullptr) return all;
  const auto add = [&](const auto& named) {
    for (const auto& item : named)
      if (std::none_of(all.begin(), all.end(), [&](const auto& known) { return known.second.is_same(item.value()); }))
        all.emplace_back(item.key(), item.value());
  };
  add(module->named_parameters());
  add(module->named_buffers());
  return all;
}

void check_float32(const std::string& name, const Tensor& tensor) {
  if (tensor.is_floating_point() && tensor.scalar_type() != torch::kFloat32)
    throw NotSupported(
        fmt::format("[onnx] {} is {}: files are written in float32", name, c10::toString(tensor.scalar_type())), {},
        "convert the module and its inputs with to(torch::kFloat32) first");
}

void check(const std::vector<OnnxInput>& inputs, const NamedTensors& parameters) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : parameters) {
    names.insert(name);
    check_float32(name, tensor);
  }
  if (inputs.empty()) throw InvalidArgument("[onnx] the function has no inputs: name one at least");
  for (const OnnxInput& input : inputs) {
    if (input.name.empty() || !names.insert(input.name).second)
      throw InvalidArgument(
          fmt::format("[onnx] an input is called '{}': it needs a name that no other input and no "
                      "parameter has",
                      input.name));
    if (!input.example.defined() || input.example.dim() <= input.batch_dimension ||
        (input.batch_dimension >= 0 && input.example.size(input.batch_dimension) == 0))
      throw InvalidArgument(
          fmt::format("[onnx] the example of {} has no sample along dimension {}", input.name, input.batch_dimension));
    check_float32(input.name, input.example);
  }
}

// Not 1, which broadcasts, and far enough apart to tell B/2 from a constant.
constexpr Index traced_batches[] = {2, 5};

// The example with its samples repeated or left out until there are B.
Tensor with_batch(const OnnxInput& input, Index B) {
  if (B == 0 || input.batch_dimension < 0) return input.example;
  const Index d = input.batch_dimension;
  return input.example.index_select(d, torch::arange(B, input.example.device()).remainder(input.example.size(d)));
}

Program program_of(const TensorFunction& function, const std::vector<OnnxInput>& inputs, const NamedTensors& parameters,
                   bool dynamic_batch) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : parameters) tensors.push_back(tensor);
  std::vector<Run> runs;
  const auto add_run = [&](Index B) {
    std::vector<Tensor> examples;
    for (const OnnxInput& input : inputs) examples.push_back(with_batch(input, B));
    runs.push_back({B, trace(function, examples, tensors)});
  };
  if (dynamic_batch) {
    for (const Index B : traced_batches) add_run(B);
  } else {
    add_run(0);
  }
  return merge_runs(std::move(runs));
}

TensorType file_type(const Value& value) {
  TensorType type{element_type(value.type), {}};
  for (const Size& size : value.sizes) type.sizes.push_back(size.per_sample ? -size.count : size.count);
  return type;
}

std::vector<Written> written_of(const Program& program, std::size_t value, const Names& names) {
  std::vector<Written> all;
  for (const std::string& name : names) all.push_back({name, program.values[value].type, program.values[value].sizes});
  return all;
}

void write_operation(const Program& program, const Operation& operation, std::vector<std::vector<Written>>& written,
                     Writer& writer) {
  Step step(program, operation, written, writer);
  if (operation.name == "prim::ListConstruct") {
    for (std::size_t i = 0; i < operation.inputs.size(); ++i)
      if (step.is_tensor(i)) written[operation.outputs[0]].push_back({step.x(i), step.type(i), step.sizes(i)});
    return;
  }
  Names names;
  if (operation.name == "prim::ListUnpack") {
    for (const Written& element : step.list(0)) names.push_back(element.name);
  } else {
    const auto found = operators().find(operation.name);
    if (found == operators().end())
      throw NotSupported(fmt::format("[onnx] {} has no counterpart in the table of operators", operation.name));
    try {
      names = found->second(step);
    } catch (const c10::Error& error) {  // arguments of another kind than expected
      step.refuse(error.what_without_backtrace());
    }
  }
  for (const std::size_t output : operation.outputs) {
    const Value& value = program.values[output];
    if (value.is_tensor && c10::isFloatingType(value.type) && value.type != torch::kFloat32)
      step.refuse(fmt::format("it gives {}, and files are written in float32", c10::toString(value.type)));
  }
  if (operation.outputs.size() == 1) {
    written[operation.outputs[0]] = written_of(program, operation.outputs[0], names);
    return;
  }
  for (std::size_t i = 0; i < operation.outputs.size(); ++i)
    written[operation.outputs[i]] = written_of(program, operation.outputs[i], {names.at(i)});
}

Names output_names(const OnnxOptions& options, std::size_t count) {
  if (count == 0) throw InvalidArgument("[onnx] the function has no outputs");
  if (options.outputs.empty() && count == 1) return {"output"};
  Names names = options.outputs;
  if (names.empty())
    for (std::size_t i = 0; i < count; ++i) names.push_back(fmt::format("output_{}", i));
  if (names.size() != count)
    throw InvalidArgument(fmt::format("[onnx] {} outputs are named, the function gives {}", names.size(), count));
  return names;
}

// Whose operations are refused, for messages; empty where nothing is known of the function.
std::string place_of(const OnnxOptions& options) {
  const std::string module = options.module == nullptr ? "" : "; found in " + options.module->name();
  if (options.attention.empty()) return module;
  return fmt::format("{} with attention {}", module.empty() ? "; found in a function" : module, options.attention);
}

void write(const Program& program, const std::vector<OnnxInput>& inputs, const NamedTensors& parameters,
           const OnnxOptions& options, ModelFile& file) {
  const Names outputs = output_names(options, program.outputs.size());
  std::set<std::string> taken(outputs.begin(), outputs.end());
  std::vector<std::vector<Written>> written(program.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::size_t v = program.inputs[i];
    if (!taken.insert(inputs[i].name).second)
      throw InvalidArgument(fmt::format("[onnx] '{}' is the name of more than one input or output", inputs[i].name));
    written[v] = written_of(program, v, {inputs[i].name});
    file.add_input(inputs[i].name, file_type(program.values[v]));
  }
  std::set<std::size_t> used(program.outputs.begin(), program.outputs.end());
  for (const Operation& operation : program.operations) used.insert(operation.inputs.begin(), operation.inputs.end());
  const auto batched =
      std::find_if(inputs.begin(), inputs.end(), [](const auto& input) { return input.batch_dimension >= 0; });
  for (const auto& [name, tensor] : parameters) taken.insert(name);
  Writer writer = batched == inputs.end() ? Writer(file, taken, "", 0)
                                          : Writer(file, taken, batched->name, batched->batch_dimension);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::size_t v = program.inputs[inputs.size() + i];
    if (!used.contains(v)) continue;
    written[v] = written_of(program, v, {parameters[i].first});
    writer.initializer(parameters[i].first, parameters[i].second);
  }
  for (const Operation& operation : program.operations) write_operation(program, operation, written, writer);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::size_t v = program.outputs[i];
    const Value& value = program.values[v];
    const std::string from = written[v].empty() ? writer.constant(value.computed.at(0).toTensor()) : written[v][0].name;
    file.add_node("Identity", {from}, {outputs[i]}, {});
    file.add_output(outputs[i], file_type(value));
  }
}

}  // namespace

void export_onnx(const TensorFunction& function, const std::vector<OnnxInput>& inputs, const OnnxOptions& options,
                 const std::filesystem::path& path) {
  const NamedTensors parameters = tensors_of(options.module);
  check(inputs, parameters);
  std::optional<Evaluating> evaluating;
  if (options.module != nullptr) evaluating.emplace(*options.module);
  ModelFile file;
  if (options.module != nullptr) file.set_name(options.module->name());
  if (!options.attention.empty()) file.set_property("attention", options.attention);
  for (const auto& [key, value] : options.properties) file.set_property(key, value);
  try {
    write(program_of(function, inputs, parameters, options.dynamic_batch), inputs, parameters, options, file);
  } catch (const NotSupported& refusal) {
    throw NotSupported(refusal.what() + place_of(options), refusal.refusals(), refusal.hint());
  }
  io::write_atomically(path, file.checked_bytes());
}

}  // namespace saddle::nn
