#include "saddle/nn/onnx/program.hpp"

#include <ATen/core/jit_type.h>
#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "saddle/base/error.hpp"

namespace saddle::nn::onnx {

namespace {

namespace jit = torch::jit;

const char* const fixed_batch_hint = "dynamic_batch = false writes it for the batch size of the examples";

[[noreturn]] void refuse_other_course() {
  throw NotSupported("[onnx] the function runs other operations for another batch size", {}, fixed_batch_hint);
}

// A graph with its values numbered in the order in which they appear.
struct Listing {
  std::vector<std::size_t> inputs, outputs;
  std::vector<Operation> operations;
  std::vector<jit::Value*> values;
};

Listing list(jit::Graph& graph) {
  Listing listing;
  std::unordered_map<const jit::Value*, std::size_t> numbers;
  const auto number = [&](at::ArrayRef<jit::Value*> values) {
    std::vector<std::size_t> all;
    for (jit::Value* value : values) {
      const auto [found, is_new] = numbers.emplace(value, numbers.size());
      if (is_new) listing.values.push_back(value);
      all.push_back(found->second);
    }
    return all;
  };
  listing.inputs = number(graph.inputs());
  for (jit::Node* node : graph.nodes()) {
    const auto inputs = number(node->inputs());
    listing.operations.push_back({node->kind().toQualString(), inputs, number(node->outputs()), {node}});
  }
  listing.outputs = number(graph.outputs());
  return listing;
}

// Puts the nodes of another run beside those of the first.
void join(const Listing& other, Listing& first) {
  if (other.operations.size() != first.operations.size() || other.outputs != first.outputs) refuse_other_course();
  for (std::size_t i = 0; i < first.operations.size(); ++i) {
    const Operation &a = first.operations[i], &b = other.operations[i];
    if (a.name != b.name || a.inputs != b.inputs || a.outputs != b.outputs) refuse_other_course();
    first.operations[i].nodes.push_back(b.nodes[0]);
  }
}

bool are_equal(const c10::IValue& a, const c10::IValue& b) {
  if (a.isList() && b.isList()) {
    const auto x = a.toListRef(), y = b.toListRef();
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), are_equal);
  }
  if (!a.isTensor() || !b.isTensor()) return a == b;
  const torch::Tensor x = a.toTensor(), y = b.toTensor();
  return x.scalar_type() == y.scalar_type() && x.sizes() == y.sizes() && torch::equal(x, y);
}

// Elements and sizes of a tensor, from what was computed or from what the tracer noted.
void describe(const Program& program, const std::vector<jit::Value*>& in_runs, Value& value) {
  const std::string what = in_runs[0]->node()->kind().toQualString();
  std::vector<std::vector<Index>> sizes;
  for (std::size_t r = 0; r < in_runs.size(); ++r) {
    if (!value.computed.empty()) {
      if (!value.computed[r].isTensor() || !value.computed[r].toTensor().defined()) return;
      sizes.push_back(value.computed[r].toTensor().sizes().vec());
      value.type = value.computed[r].toTensor().scalar_type();
    } else {
      const auto type = in_runs[r]->type()->cast<c10::TensorType>();
      if (!type || !type->scalarType() || !type->sizes().concrete_sizes()) return;
      sizes.push_back(*type->sizes().concrete_sizes());
      value.type = *type->scalarType();
    }
  }
  value.is_tensor = true;
  if (sizes.front().size() != sizes.back().size()) refuse_other_course();
  for (std::size_t d = 0; d < sizes[0].size(); ++d)
    value.sizes.push_back(program.merge(sizes.front()[d], sizes.back()[d], "a size of the result of " + what));
}

// Runs a node on the arguments that lie on the stack.
void run(jit::Node* node, jit::Stack& stack) {
  if (node->kind() == c10::prim::Constant) {
    stack.push_back(*jit::toIValue(node->output()));
  } else if (node->kind() == c10::prim::ListConstruct) {
    c10::impl::GenericList list(node->output()->type()->expectRef<c10::ListType>().getElementType());
    for (const c10::IValue& element : stack) list.push_back(element);
    stack = {c10::IValue(list)};
  } else if (node->kind() == c10::prim::ListUnpack) {
    const c10::IValue list = stack[0];
    stack = list.toListRef().vec();
  } else {
    node->getOperation()(stack);
  }
}

// The results of an operation in each run where all it takes has been computed there; otherwise nothing.
void compute(const Operation& operation, std::vector<Value>& values) {
  for (const std::size_t input : operation.inputs)
    if (values[input].computed.empty()) return;
  for (std::size_t r = 0; r < operation.nodes.size(); ++r) {
    jit::Stack stack;
    for (const std::size_t input : operation.inputs) stack.push_back(values[input].computed[r]);
    run(operation.nodes[r], stack);
    for (std::size_t i = 0; i < stack.size(); ++i) values[operation.outputs[i]].computed.push_back(stack[i]);
  }
}

// Whether an operation may give other results when it is run again.
void refuse_chance(const Operation& operation) {
  if (operation.nodes[0]->isNondeterministic())
    throw NotSupported(fmt::format("[onnx] {} draws random numbers", operation.name), {},
                       "name the module in the options: it is exported as it evaluates");
  if (operation.name.starts_with("aten::empty") || operation.name.starts_with("aten::new_empty"))
    throw NotSupported(fmt::format("[onnx] {} leaves its numbers to writing that no trace shows", operation.name));
}

}  // namespace

Size Program::merge(Index first, Index second, const std::string& what) const {
  if (first == second) return {first, false};
  const Index a = runs.front().batch, b = runs.back().batch;
  if (first % a != 0 || second % b != 0 || first / a != second / b)
    throw NotSupported(fmt::format("[onnx] {} is {} for a batch of {} and {} for one of {}: it is no multiple of the "
                                   "batch size",
                                   what, first, a, second, b),
                       {}, fixed_batch_hint);
  return {first / a, true};
}

Program merge_runs(std::vector<Run> runs) {
  Program program;
  program.runs = std::move(runs);
  Listing all = list(*program.runs[0].graph);
  std::vector<std::vector<jit::Value*>> in_runs;
  for (jit::Value* value : all.values) in_runs.push_back({value});
  for (std::size_t r = 1; r < program.runs.size(); ++r) {
    const Listing other = list(*program.runs[r].graph);
    join(other, all);
    for (std::size_t v = 0; v < in_runs.size(); ++v) in_runs[v].push_back(other.values[v]);
  }

  // Backwards: what do the outputs need?
  std::set<std::size_t> needed(all.outputs.begin(), all.outputs.end());
  std::vector<Operation> used;
  for (auto operation = all.operations.rbegin(); operation != all.operations.rend(); ++operation) {
    if (std::none_of(operation->outputs.begin(), operation->outputs.end(),
                     [&](std::size_t value) { return needed.contains(value); }))
      continue;
    needed.insert(operation->inputs.begin(), operation->inputs.end());
    used.push_back(std::move(*operation));
  }
  std::reverse(used.begin(), used.end());

  program.values.resize(all.values.size());
  const auto finish = [&](std::size_t v) {
    Value& value = program.values[v];
    describe(program, in_runs[v], value);
    value.is_constant = !value.computed.empty() && are_equal(value.computed.front(), value.computed.back());
    return value.is_constant;
  };
  for (const std::size_t v : all.inputs) finish(v);
  for (const Operation& operation : used) {
    refuse_chance(operation);
    compute(operation, program.values);
    bool constant = true;
    for (const std::size_t v : operation.outputs) constant &= finish(v);
    if (!constant && operation.name != "prim::Constant") program.operations.push_back(operation);
  }
  program.inputs = all.inputs;
  program.outputs = all.outputs;
  return program;
}

}  // namespace saddle::nn::onnx
