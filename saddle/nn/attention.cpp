#include "saddle/nn/attention.hpp"

#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "saddle/mechanisms/select.hpp"
#include "saddle/nn/composed.hpp"
#include "saddle/nn/dense/dropout.hpp"
#include "saddle/nn/plain.hpp"
#include "saddle/nn/tensor.hpp"
#include "saddle/primal/primal_form.hpp"

namespace saddle::nn {

namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// With heads, the first tensor is a projection [B,N,2 H D + H E] that stands for q, k and v.
struct Fused {
  Index heads = 0, value_width = 0;
};

// What a node of the graph keeps that is no tensor of it.
struct Task {
  primal::Attention value;
  AttentionInputs inputs;  // masks and dropout
  Wanted wanted;
  Fused fused;
};
using TaskPointer = std::shared_ptr<const Task>;

// The tensors that may want a gradient: q, k, v, skip, parameters.
variable_list tensors_of(const AttentionInputs& inputs) {
  variable_list list{inputs.q, inputs.k, inputs.v, inputs.skip};
  for (const auto& [name, tensor] : inputs.parameters) list.push_back(tensor);
  return list;
}

// The same tensors back in their places; a fused projection is taken apart.
void put_tensors(const variable_list& list, const Fused& fused, AttentionInputs& inputs) {
  inputs.q = list[0];
  inputs.k = list[1];
  inputs.v = list[2];
  if (fused.heads > 0 && list[0].defined()) {
    const Index values = fused.heads * fused.value_width, keys = (list[0].size(2) - values) / 2;
    const auto part = [&](Index first, Index size) {
      return list[0].narrow(2, first, size).unflatten(2, {fused.heads, -1}).transpose(1, 2);
    };
    inputs.q = part(0, keys);
    inputs.k = part(keys, keys);
    inputs.v = part(2 * keys, values);
  }
  inputs.skip = list[3];
  std::size_t at = 4;
  for (auto& [name, tensor] : inputs.parameters) tensor = list[at++];
}

primal::Call call_of(const primal::Attention& value, const AttentionInputs& inputs) {
  primal::Call call;
  call.attention = value;
  call.q = view_of(inputs.q);
  call.k = view_of(inputs.k);
  call.v = view_of(inputs.v);
  call.key_mask = view_of(inputs.key_mask);
  call.mask = view_of(inputs.mask);
  call.skip = view_of(inputs.skip);
  for (const auto& [name, tensor] : inputs.parameters) call.parameters[name] = view_of(tensor);
  call.dropout = inputs.dropout;
  return call;
}

// Throws what a call would, for tensors without memory.
void validate_shapes(const primal::Attention& value, const AttentionInputs& inputs) {
  static char nothing;
  primal::Call call = call_of(value, inputs);
  const auto pretend = [](TensorView& view) {
    if (view.data == nullptr && view.rank() > 0) view.data = &nothing;
  };
  for (TensorView* view : {&call.q, &call.k, &call.v, &call.key_mask, &call.mask, &call.skip}) pretend(*view);
  for (auto& [name, view] : call.parameters) pretend(view);
  primal::validate(call);
}

// The type of sums: log-sum-exp in bfloat16 would be of no use.
torch::ScalarType sum_type(torch::ScalarType type) { return type == torch::kFloat64 ? type : torch::kFloat32; }

// Empty [B,H,n,C] that lies in memory as (B,n,H,C), as a projection reads and writes it.
Tensor empty_rows(Index B, Index H, Index n, Index C, const torch::TensorOptions& options) {
  return torch::empty({B, n, H, C}, options).transpose(1, 2);
}

AttentionOutputs empty_outputs(const primal::Attention& value, const AttentionInputs& inputs, const Wanted& wanted) {
  const Dims d = dims_of(inputs);
  const auto options = inputs.q.options().requires_grad(false);
  AttentionOutputs out;
  out.y = empty_rows(d.B, d.H, d.N, d.E, options);
  if (wanted.lse) out.lse = torch::empty({d.B, d.H, d.N}, options.dtype(sum_type(inputs.q.scalar_type())));
  if (!wanted.weights && !wanted.column_sums) return out;
  const Index K = primal::weight_columns(value, d);
  if (wanted.weights) out.weights = torch::empty({d.B, d.H, d.N, K}, options);
  if (wanted.column_sums) out.column_sums = torch::empty({d.B, d.H, K}, options);
  return out;
}

void run_forward(const primal::Attention& value, const AttentionInputs& inputs, const AttentionOutputs& out) {
  follow_torch_threads();
  mechanisms::forward(call_of(value, inputs),
                      {view_of(out.y), view_of(out.weights), view_of(out.lse), view_of(out.column_sums)});
}

// y and lse are what the forward pass gave, lse possibly undefined; gradients are written where tensors are defined.
void run_backward(const primal::Attention& value, const AttentionInputs& inputs, const Tensor& y, const Tensor& lse,
                  const Tensor& dy, const AttentionInputs& gradients) {
  follow_torch_threads();
  primal::Gradients views;
  views.dy = view_of(dy);
  if (lse.defined()) {
    views.y = view_of(y);
    views.lse = view_of(lse);
  }
  views.dq = view_of(gradients.q);
  views.dk = view_of(gradients.k);
  views.dv = view_of(gradients.v);
  views.dskip = view_of(gradients.skip);
  for (const auto& [name, tensor] : gradients.parameters)
    if (tensor.defined()) views.parameters[name] = view_of(tensor);
  mechanisms::backward(call_of(value, inputs), views);
}

// Gradients that can be differentiated again: those of the composed path.
variable_list composed_gradients(const Task& task, variable_list tensors, const Tensor& dy) {
  const auto counts = [](const Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); };
  variable_list wanted;
  for (Tensor& tensor : tensors)
    if (counts(tensor)) wanted.push_back(tensor = tensor.view_as(tensor));  // what one owes to another is not ours
  AttentionInputs inputs = task.inputs;
  put_tensors(tensors, task.fused, inputs);
  const variable_list found =
      torch::autograd::grad({composed_attention(task.value, inputs).y}, wanted, {dy}, true, true, true);
  variable_list gradients(tensors.size());
  for (std::size_t i = 0, at = 0; i < tensors.size(); ++i)
    if (counts(tensors[i])) gradients[i] = found[at++];
  return gradients;
}

// Whether the backward pass gains from the log-sum-exp.
bool keeps_lse(const primal::Attention& value) {
  return std::holds_alternative<primal::RowSum>(value.normaliser) &&
         (std::holds_alternative<primal::ExpDot>(value.kernel) || std::holds_alternative<primal::Rbf>(value.kernel));
}

// One attention in the graph. torch::autograd::Function takes no lists of tensors.
class AttentionNode : public torch::autograd::Node {
 public:
  // y and lse are outputs; lse may be undefined. Called once y knows this node.
  void save(const TaskPointer& task, const variable_list& tensors, const Tensor& y, const Tensor& lse) {
    task_ = task;
    for (const Tensor& tensor : tensors) saved_.emplace_back(tensor, false);
    y_ = SavedVariable(y, true);
    lse_ = SavedVariable(lse, false);
  }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    saved_.clear();
    y_.reset_data();
    lse_.reset_data();
    released_ = true;
  }

  variable_list apply(variable_list&& outputs) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (released_)
      throw InvalidArgument("[attention] the graph was freed by an earlier backward pass",
                            "call backward(retain_graph=True) the first time");
    variable_list tensors, found(saved_.size());
    for (const SavedVariable& saved : saved_) tensors.push_back(saved.unpack());
    if (!outputs[0].defined()) return found;
    if (torch::GradMode::is_enabled()) return composed_gradients(*task_, tensors, outputs[0]);
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].defined() && task_should_compute_output(i)) found[i] = torch::empty_like(tensors[i]);
    AttentionInputs inputs = task_->inputs, gradients = task_->inputs;
    put_tensors(tensors, task_->fused, inputs);
    put_tensors(found, task_->fused, gradients);
    if (inputs.q.is_meta()) return found;
    run_backward(task_->value, inputs, y_.unpack(shared_from_this()), lse_.unpack(), outputs[0], gradients);
    return found;
  }

  std::string name() const override { return "SaddleAttentionBackward"; }

 private:
  TaskPointer task_;
  std::vector<SavedVariable> saved_;
  SavedVariable y_, lse_;
  bool released_ = false;
};

// Runs the kernels on `tensors`; where one of them wants a gradient, y becomes part of the graph.
AttentionOutputs run(const TaskPointer& task, const variable_list& tensors) {
  const bool differentiable =
      torch::GradMode::is_enabled() && std::any_of(tensors.begin(), tensors.end(), [](const Tensor& tensor) {
        return tensor.defined() && tensor.requires_grad();
      });
  Wanted wanted = task->wanted;
  wanted.lse |= differentiable && keeps_lse(task->value);
  AttentionOutputs out;
  {
    const torch::NoGradGuard guard;
    AttentionInputs inputs = task->inputs;
    put_tensors(tensors, task->fused, inputs);
    const bool meta = inputs.q.is_meta();
    if (meta) validate_shapes(task->value, inputs);
    out = empty_outputs(task->value, inputs, wanted);
    if (!meta) run_forward(task->value, inputs, out);
  }
  if (differentiable) {
    const std::shared_ptr<AttentionNode> node(new AttentionNode(), torch::autograd::deleteNode);
    node->set_next_edges(torch::autograd::collect_next_edges(tensors));
    torch::autograd::set_history(out.y, node);
    node->save(task, tensors, out.y, out.lse);
  }
  if (!task->wanted.lse) out.lse = Tensor();
  return out;
}

TaskPointer task_for(const primal::Attention& value, const AttentionInputs& inputs, const Wanted& wanted,
                     const Fused& fused) {
  auto task = std::make_shared<Task>();
  task->value = value;
  task->inputs = inputs;
  task->wanted = wanted;
  task->fused = fused;
  put_tensors(variable_list(tensors_of(inputs).size()), fused, task->inputs);
  return task;
}

// Tensors without memory take the same way, as far as shapes go.
bool runs_on_kernels(const AttentionInputs& inputs) {
  return inputs.q.is_meta() ||
         (inputs.q.device().is_cpu() && !inputs.score_bias.defined() && !PlainOperations::are_wanted());
}

void require_rank(const Tensor& tensor, Index rank, const char* name, const char* shape) {
  if (tensor.defined() && tensor.dim() != rank)
    throw InvalidArgument(
        fmt::format("[attention] {} has {} dimensions, {} are expected: {}", name, tensor.dim(), rank, shape));
}

// Masks in the shapes of a call: true and false, broadcast by strides.
AttentionInputs with_full_masks(AttentionInputs inputs) {
  const Dims d = dims_of(inputs);
  const auto broadcast = [&](Tensor& mask, const char* name) {
    if (!mask.defined()) return;
    try {
      mask = mask.expand({d.B, d.H, d.N, d.M});
    } catch (const c10::Error&) {
      throw InvalidArgument(fmt::format("[attention] {} has shape {}, which does not broadcast to ({},{},{},{})", name,
                                        to_string(Shape(mask.sizes().begin(), mask.sizes().end())), d.B, d.H, d.N,
                                        d.M));
    }
  };
  broadcast(inputs.mask, "mask");
  broadcast(inputs.score_bias, "score_bias");
  for (const auto& [mask, name] : {std::pair{&inputs.mask, "mask"}, {&inputs.key_mask, "key_mask"}})
    if (mask->defined() && mask->scalar_type() != torch::kBool)
      throw InvalidArgument(fmt::format("[attention] {} is {}, it must be bool: true where a key is seen", name,
                                        c10::toString(mask->scalar_type())),
                            "an additive mask goes into score_bias");
  return inputs;
}

}  // namespace

Dims dims_of(const AttentionInputs& inputs) {
  require_rank(inputs.q, 4, "q", "(B,H,N,D)");
  require_rank(inputs.k, 4, "k", "(B,H,M,D)");
  require_rank(inputs.v, 4, "v", "(B,H,M,E)");
  if (!inputs.q.defined() || !inputs.k.defined() || !inputs.v.defined())
    throw InvalidArgument("[attention] q, k and v must all be given");
  return {inputs.q.size(0), inputs.q.size(1), inputs.q.size(2), inputs.k.size(2), inputs.q.size(3), inputs.v.size(3)};
}

AttentionOutputs attention(const primal::Attention& value, const AttentionInputs& given, const Wanted& wanted) {
  const AttentionInputs inputs = with_full_masks(given);
  if (!runs_on_kernels(inputs)) return composed_attention(value, inputs, wanted);
  return run(task_for(value, inputs, wanted, {}), tensors_of(inputs));
}

Tensor attention_qkv(const primal::Attention& value, const Tensor& qkv, Index heads, const AttentionInputs& rest,
                     Index value_width) {
  const Index width = qkv.defined() && qkv.dim() == 3 ? qkv.size(2) : 0;
  const Fused fused{heads, value_width > 0 || heads < 1 ? value_width : width / (3 * heads)};
  const Index keys = width - heads * fused.value_width;
  if (heads < 1 || fused.value_width < 1 || keys < 1 || keys % (2 * heads) != 0 ||
      (value_width == 0 && width % (3 * heads) != 0))
    throw InvalidArgument(fmt::format("[attention_qkv] qkv has shape {} for {} heads: (B,N,2 H D + H E) is expected",
                                      qkv.defined() ? to_string(Shape(qkv.sizes().begin(), qkv.sizes().end())) : "()",
                                      heads));
  AttentionInputs inputs = rest;
  variable_list tensors = tensors_of(rest);
  tensors[0] = qkv;
  tensors[1] = tensors[2] = Tensor();
  put_tensors(tensors, fused, inputs);
  inputs = with_full_masks(inputs);
  const Tensor y = runs_on_kernels(inputs) ? run(task_for(value, inputs, {}, fused), tensors).y
                                           : composed_attention(value, inputs).y;
  return y.transpose(1, 2).flatten(2);
}

primal::Dropout weight_dropout(const primal::Attention& value, double p) {
  if (p == 0 || primal::primal_form_refusals(value, false).empty()) return {};
  return {p, next_seed(), 0};
}

}  // namespace saddle::nn
