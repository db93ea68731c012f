// torch.ops.saddle.*: one boxed function serves `attention`, its variants and every mechanism of the registry.
#include <torch/library.h>

#include "saddle/mechanisms/registry.hpp"
#include "saddle/nn/multihead.hpp"
#include "saddle/nn/written.hpp"

namespace saddle::nn {

namespace {

using c10::IValue;
using torch::jit::Stack;

// What every operator takes after its own arguments.
constexpr const char* common_arguments =
    "Tensor? key_mask=None, Tensor? mask=None, Tensor? score_bias=None, Tensor? skip=None, Tensor[]? parameters=None, "
    "float dropout=0., int seed=0, int offset=0";

// The arguments of one call, by name.
class Arguments {
 public:
  Arguments(const c10::FunctionSchema& schema, Stack& stack)
      : schema_(schema), values_(torch::jit::pop(stack, schema.arguments().size())) {}

  const IValue& operator[](const std::string& name) const {
    return values_[static_cast<std::size_t>(*schema_.argumentIndexWithName(name))];
  }
  bool has(const std::string& name) const { return schema_.argumentIndexWithName(name).has_value(); }
  Tensor tensor(const std::string& name) const {
    const IValue& value = (*this)[name];
    return value.isNone() ? Tensor() : value.toTensor();
  }

 private:
  const c10::FunctionSchema& schema_;
  std::vector<IValue> values_;
};

// Options of a mechanism as a written form: name and "beta=0.6" give "name(beta=0.6)".
std::string written_form(const std::string& name, const Arguments& arguments) {
  if (arguments.has("attention")) return arguments["attention"].toStringRef();
  const std::string& options = arguments["options"].toStringRef();
  return options.empty() ? name : name + "(" + options + ")";
}

primal::Dropout dropout_of(const Arguments& arguments) {
  return {arguments["dropout"].toDouble(), static_cast<std::uint64_t>(arguments["seed"].toInt()),
          static_cast<std::uint64_t>(arguments["offset"].toInt())};
}

AttentionInputs inputs_of(const primal::Attention& value, const Arguments& arguments) {
  AttentionInputs inputs;
  inputs.key_mask = arguments.tensor("key_mask");
  inputs.mask = arguments.tensor("mask");
  inputs.score_bias = arguments.tensor("score_bias");
  inputs.skip = arguments.tensor("skip");
  inputs.dropout = dropout_of(arguments);
  Dims dims;
  if (arguments.has("qkv")) {
    const Tensor qkv = arguments.tensor("qkv");
    dims.H = arguments["heads"].toInt();
    if (qkv.dim() == 3 && dims.H > 0) dims.D = dims.E = qkv.size(2) / (3 * dims.H);
  } else {
    inputs.q = arguments.tensor("q");
    inputs.k = arguments.tensor("k");
    inputs.v = arguments.tensor("v");
    dims = dims_of(inputs);
  }
  if (const IValue& given = arguments["parameters"]; !given.isNone())
    inputs.parameters = named_parameters(value, dims, given.toTensorVector());
  return inputs;
}

void push(Stack& stack, const Tensor& tensor) { stack.push_back(tensor.defined() ? IValue(tensor) : IValue()); }

void run_multihead(const Arguments& arguments, Stack& stack) {
  const primal::Attention& value = parsed(arguments["attention"].toStringRef());
  const Index heads = arguments["heads"].toInt();
  MultiheadWeights weights;
  weights.in_proj_weight = arguments.tensor("in_proj_weight");
  weights.in_proj_bias = arguments.tensor("in_proj_bias");
  weights.q_proj_weight = arguments.tensor("q_proj_weight");
  weights.k_proj_weight = arguments.tensor("k_proj_weight");
  weights.v_proj_weight = arguments.tensor("v_proj_weight");
  weights.out_proj_weight = arguments.tensor("out_proj_weight");
  weights.out_proj_bias = arguments.tensor("out_proj_bias");
  const Tensor query = arguments.tensor("query"), key = arguments.tensor("key");
  AttentionInputs rest;
  if (query.dim() != 3 || key.dim() != 3)
    throw InvalidArgument("[multihead_attention] query and key must have 3 dimensions: (B,N,X) and (B,M,..)");
  put_torch_masks(arguments.tensor("key_padding_mask"), arguments.tensor("attn_mask"),
                  {query.size(0), heads, query.size(1), key.size(1)}, rest);
  rest.dropout = dropout_of(arguments);
  if (const IValue& given = arguments["parameters"]; !given.isNone()) {
    Dims dims;
    dims.H = heads;
    dims.E = weights.out_proj_weight.size(1) / std::max<Index>(heads, 1);
    rest.parameters = named_parameters(value, dims, given.toTensorVector());
  }
  const bool with_weights = arguments.has("weights");
  Wanted wanted;
  wanted.weights = with_weights && arguments["weights"].toBool();
  const AttentionOutputs out =
      multihead_attention(value, heads, weights, query, key, arguments.tensor("value"), rest, wanted);
  push(stack, out.y);
  if (with_weights) push(stack, out.weights);
}

void run(const std::string& name, const Arguments& arguments, Stack& stack) {
  if (arguments.has("out_proj_weight")) {
    run_multihead(arguments, stack);
    return;
  }
  const primal::Attention& value = parsed(written_form(name, arguments));
  const AttentionInputs inputs = inputs_of(value, arguments);
  if (arguments.has("qkv")) {
    stack.emplace_back(attention_qkv(value, arguments.tensor("qkv"), arguments["heads"].toInt(), inputs));
    return;
  }
  Wanted wanted;
  if (!arguments.has("weights")) {
    stack.emplace_back(attention(value, inputs, wanted).y);
    return;
  }
  wanted = {arguments["weights"].toBool(), arguments["lse"].toBool(), arguments["column_sums"].toBool()};
  const AttentionOutputs out = attention(value, inputs, wanted);
  for (const Tensor& tensor : {out.y, out.weights, out.lse, out.column_sums}) push(stack, tensor);
}

// Errors of this library leave as those that Python shows as ValueError and NotImplementedError.
void call(const c10::OperatorHandle& handle, Stack* stack) {
  const auto text = [](const Error& error) {
    return error.hint().empty() ? std::string(error.what()) : std::string(error.what()) + "\nhint: " + error.hint();
  };
  try {
    const std::string full = handle.schema().name();
    const Arguments arguments(handle.schema(), *stack);
    run(full.substr(full.rfind(':') + 1), arguments, *stack);
  } catch (const NotSupported& error) {
    TORCH_CHECK_NOT_IMPLEMENTED(false, text(error));
  } catch (const Error& error) {
    TORCH_CHECK_VALUE(false, text(error));
  }
}

void define(torch::Library& library, const std::string& schema) {
  library.def(torch::schema(schema.c_str()), torch::CppFunction::makeFromBoxedFunction<&call>());
}

}  // namespace

TORCH_LIBRARY(saddle, library) {
  const std::string rest = std::string(", *, ") + common_arguments;
  define(library, "attention(Tensor q, Tensor k, Tensor v, str attention" + rest + ") -> Tensor");
  define(library, "attention_outputs(Tensor q, Tensor k, Tensor v, str attention" + rest +
                      ", bool weights=False, bool lse=False, bool column_sums=False) -> "
                      "(Tensor y, Tensor? weights, Tensor? lse, Tensor? column_sums)");
  define(library, "attention_qkv(Tensor qkv, int heads, str attention" + rest + ") -> Tensor");
  const std::string multihead =
      "(Tensor query, Tensor key, Tensor value, str attention, int heads, *, "
      "Tensor? in_proj_weight=None, Tensor? in_proj_bias=None, Tensor? q_proj_weight=None, Tensor? "
      "k_proj_weight=None, Tensor? v_proj_weight=None, Tensor out_proj_weight, Tensor? out_proj_bias=None, Tensor? "
      "key_padding_mask=None, Tensor? attn_mask=None, Tensor[]? parameters=None, float dropout=0., int seed=0, int "
      "offset=0";
  define(library, "multihead_attention" + multihead + ", bool weights=False) -> (Tensor y, Tensor? weights)");
  // Without the optional tensor, which torch.jit.trace cannot record.
  define(library, "multihead_output" + multihead + ") -> Tensor");
  for (const mechanisms::Mechanism* mechanism : mechanisms::all_declared())
    if (mechanism->level == mechanisms::Level::kernel)
      define(library, mechanism->name + "(Tensor q, Tensor k, Tensor v, str options=''" + rest + ") -> Tensor");
}

}  // namespace saddle::nn
