#include "saddle/nn/onnx/trace.hpp"

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/ir.h>

#include <unordered_set>

#include "saddle/base/error.hpp"
#include "saddle/nn/plain.hpp"

namespace saddle::nn::onnx {

namespace {

namespace jit = torch::jit;

// Whether a value of the graph is computed from one of its first `count` inputs.
bool depends_on_inputs(const jit::Graph& graph, std::size_t count, const jit::Value* value) {
  std::unordered_set<const jit::Value*> seen;
  std::vector<const jit::Value*> open{value};
  for (; !open.empty();) {
    const jit::Value* one = open.back();
    open.pop_back();
    if (!seen.insert(one).second) continue;
    for (std::size_t i = 0; i < count; ++i)
      if (graph.inputs()[i] == one) return true;
    for (const jit::Value* input : one->node()->inputs()) open.push_back(input);
  }
  return false;
}

// Notices when a number is read out of a tensor that depends on the inputs: what is done with it leaves no trace.
class ReadingWatch {
 public:
  explicit ReadingWatch(std::size_t inputs) {
    input_count = inputs;
    culprit.clear();
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(&look).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  }
  ~ReadingWatch() { at::removeCallback(handle_); }
  ReadingWatch(const ReadingWatch&) = delete;
  ReadingWatch& operator=(const ReadingWatch&) = delete;

  static const std::string& found() { return culprit; }

 private:
  static std::unique_ptr<at::ObserverContext> look(const at::RecordFunction& call) {
    const std::string name = call.name();
    if (!culprit.empty() || (name != "aten::item" && name != "aten::equal" && name != "aten::is_nonzero")) return {};
    const auto& state = jit::tracer::getTracingState();  // none inside of an operation
    if (!state) return {};
    for (const c10::IValue& argument : call.inputs())
      if (argument.isTensor() && argument.toTensor().defined() && state->hasValue(argument) &&
          depends_on_inputs(*state->graph, input_count, state->getValue(argument)))
        culprit = name;
    return {};
  }

  static thread_local std::size_t input_count;
  static thread_local std::string culprit;
  at::CallbackHandle handle_;
};

thread_local std::size_t ReadingWatch::input_count = 0;
thread_local std::string ReadingWatch::culprit;

// Nobody else sees a product that only a bias is added to, as torch's linear layers do.
bool is_bias(const jit::Node& node) {
  return node.kind() == c10::Symbol::fromQualString("aten::add_") && node.input(0)->uses().size() == 1 &&
         node.input(0)->node()->kind() == c10::aten::matmul;
}

void refuse_writing_in_place(const jit::Graph& graph) {
  for (const jit::Node* node : graph.nodes()) {
    const std::string name = node->kind().toQualString();
    if (name.ends_with('_') && !name.ends_with("__") && !is_bias(*node))
      throw NotSupported(
          fmt::format("[onnx] found {}, which overwrites its argument: use the operation without _", name));
  }
}

}  // namespace

std::shared_ptr<jit::Graph> trace(const TensorFunction& function, const std::vector<torch::Tensor>& inputs,
                                  const std::vector<torch::Tensor>& parameters) {
  const torch::NoGradGuard no_gradients;
  const PlainOperations plain;
  jit::Stack stack(inputs.begin(), inputs.end());
  stack.insert(stack.end(), parameters.begin(), parameters.end());
  const auto run = [&](const jit::Stack& values) {
    std::vector<torch::Tensor> arguments;
    for (std::size_t i = 0; i < inputs.size(); ++i) arguments.push_back(values[i].toTensor());
    const std::vector<torch::Tensor> outputs = function(arguments);
    return jit::Stack(outputs.begin(), outputs.end());
  };
  const ReadingWatch watch(inputs.size());
  std::shared_ptr<jit::Graph> graph;
  try {
    graph = jit::tracer::trace(std::move(stack), run, [](const torch::Tensor&) { return std::string(); }).first->graph;
  } catch (const Error&) {
    throw;
  } catch (const c10::Error&) {
    throw;
  } catch (const std::runtime_error& error) {
    const std::string reason = error.what();
    if (reason.find("requires grad") == std::string::npos)
      throw NotSupported(fmt::format("[onnx] torch cannot trace the function: {}", reason));
    throw InvalidArgument("[onnx] the function uses a tensor that wants a gradient and is no parameter of the module",
                          "name the module that owns it in the options, or detach the tensor");
  }
  if (!watch.found().empty())
    throw NotSupported(fmt::format("[onnx] the function reads numbers out of its inputs ({}): what it decides by them "
                                   "cannot be written down",
                                   watch.found()),
                       {}, "masks of true and false are never read");
  refuse_writing_in_place(*graph);
  return graph;
}

}  // namespace saddle::nn::onnx
