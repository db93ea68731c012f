#include "saddle/primal/call.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::primal {

namespace {

// Every message names the attention it is about.
template <class... Args>
[[noreturn]] void refuse(const Call& call, fmt::format_string<Args...> format, Args&&... args) {
  throw InvalidArgument(
      fmt::format("[{}] {}", to_text(call.attention), fmt::format(format, std::forward<Args>(args)...)));
}

void require_shape(const Call& call, std::string_view name, const TensorView& tensor, const Shape& shape,
                   std::string_view letters) {
  if (tensor.shape != shape)
    refuse(call, "{} has shape {} but must be {} = {}", name, to_string(tensor.shape), letters, to_string(shape));
  if (tensor.stride.size() != tensor.shape.size())
    refuse(call, "{} has {} strides for {} dimensions", name, tensor.stride.size(), tensor.shape.size());
  if (tensor.data == nullptr && element_count(shape) > 0) refuse(call, "{} has no data", name);
}

void require_floating(const Call& call, std::string_view name, const TensorView& tensor) {
  if (!is_floating(tensor.dtype)) refuse(call, "{} has dtype {}: use f64, f32 or bf16", name, to_string(tensor.dtype));
}

void require_mask(const Call& call, std::string_view name, const TensorView& tensor) {
  if (tensor.dtype != DType::u8 && tensor.dtype != DType::boolean)
    refuse(call, "{} has dtype {}: masks are u8 or bool, non-zero where the key is kept", name,
           to_string(tensor.dtype));
}

// A tensor that is written to: every element needs memory of its own.
void require_output(const Call& call, std::string_view name, const TensorView& tensor, const Shape& shape,
                    std::string_view letters) {
  require_shape(call, name, tensor, shape, letters);
  require_floating(call, name, tensor);
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (tensor.stride[axis] == 0 && shape[axis] > 1)
      refuse(call, "{} has stride 0 in dimension {}: only inputs can be broadcast", name, axis);
}

void require_optional_output(const Call& call, std::string_view name, const TensorView& tensor, const Shape& shape,
                             std::string_view letters) {
  if (tensor) require_output(call, name, tensor, shape, letters);
}

template <class P>
bool declares(const Attention& attention) {
  return std::any_of(attention.keys.begin(), attention.keys.end(),
                     [](const KeySet& part) { return std::holds_alternative<P>(part); });
}

// A parameter may be shared ([1,..]) or per head ([H,..]), whatever was declared.
void require_parameter(const Call& call, const std::string& name, const TensorView& tensor) {
  const Dims dims = call.dims();
  const auto known = parameters(call.attention, dims);
  const auto info = std::find_if(known.begin(), known.end(), [&](const ParameterInfo& p) { return p.name == name; });
  if (info == known.end()) {
    std::vector<std::string> names;
    for (const ParameterInfo& parameter : known) names.push_back(parameter.name);
    refuse(call, "parameter '{}' is not part of this attention, it has {}", name,
           names.empty() ? "none" : join(names, ", "));
  }
  Shape per_head = info->shape;
  if (tensor.rank() > 0) per_head[0] = tensor.shape[0];
  if (tensor.shape != per_head || (per_head[0] != 1 && per_head[0] != dims.H))
    refuse(call, "parameter {} has shape {}: its first extent must be 1 or H = {}, the others those of {}", name,
           to_string(tensor.shape), dims.H, to_string(info->shape));
  require_shape(call, name, tensor, per_head, "the shape of the parameter");
  require_floating(call, name, tensor);
}

}  // namespace

Dims Call::dims() const {
  return {q.shape.at(0), q.shape.at(1), q.shape.at(2), k.shape.at(2), q.shape.at(3), v.shape.at(3)};
}

Index weight_columns(const Attention& attention, const Dims& dims) {
  Index columns = 0;
  for (Index h = 0; h < dims.H; ++h) columns = std::max(columns, keys_of(attention, dims, h));
  return columns;
}

void validate(const Call& call) {
  for (const auto& [name, tensor] : {std::pair{"queries", &call.q}, {"keys", &call.k}, {"values", &call.v}}) {
    if (tensor->rank() != 4)
      refuse(call, "{} have shape {}: expected 4 dimensions B,H,tokens,width", name, to_string(tensor->shape));
    require_floating(call, name, *tensor);
    if (tensor->dtype != call.q.dtype)
      refuse(call, "{} have dtype {} but queries {}: dtypes must match", name, to_string(tensor->dtype),
             to_string(call.q.dtype));
    if (tensor->stride.size() != 4) refuse(call, "{} have {} strides for 4 dimensions", name, tensor->stride.size());
    if (tensor->data == nullptr && element_count(tensor->shape) > 0) refuse(call, "{} have no data", name);
  }
  if (call.k.shape[0] != call.q.shape[0] || call.k.shape[1] != call.q.shape[1])
    refuse(call, "keys have shape {} but queries {}: batch and heads must match", to_string(call.k.shape),
           to_string(call.q.shape));
  if (call.k.shape[3] != call.q.shape[3])
    refuse(call, "keys have shape {} but queries {}: last dimensions must match", to_string(call.k.shape),
           to_string(call.q.shape));
  const Dims dims = call.dims();
  require_shape(call, "v", call.v, {dims.B, dims.H, dims.M, dims.E}, "(B,H,M,E)");
  try {
    validate(call.attention, dims);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("[{}] {}", to_text(call.attention), error.what()), error.hint());
  }
  if (call.key_mask) {
    require_shape(call, "key_mask", call.key_mask, {dims.B, dims.M}, "(B,M)");
    require_mask(call, "key_mask", call.key_mask);
  } else if (declares<Padding>(call.attention)) {
    refuse(call, "the attention declares padding but the call brings no key mask");
  }
  if (call.mask) {
    require_shape(call, "mask", call.mask, {dims.B, dims.H, dims.N, dims.M}, "(B,H,N,M)");
    require_mask(call, "mask", call.mask);
  } else if (declares<Explicit>(call.attention)) {
    refuse(call, "the attention declares an explicit mask but the call brings none");
  }
  if (call.skip.data != nullptr && !call.attention.residual)
    refuse(call, "the call brings a skip tensor but the attention declares no residual");
  if (call.attention.residual) {
    if (!call.skip) refuse(call, "the attention declares a residual but the call brings no skip tensor");
    require_floating(call, "skip", call.skip);
    require_shape(call, "skip", call.skip, {dims.B, dims.H, dims.N, dims.E}, "(B,H,N,E)");
  }
  for (const auto& [name, tensor] : call.parameters) require_parameter(call, name, tensor);
  if (!(call.dropout.p >= 0 && call.dropout.p <= 1))
    refuse(call, "dropout has probability {}: use a number from 0 to 1", call.dropout.p);
}

void validate(const Call& call, const Outputs& outputs) {
  const Dims dims = call.dims();
  const Index K = weight_columns(call.attention, dims);
  require_output(call, "y", outputs.y, {dims.B, dims.H, dims.N, dims.E}, "(B,H,N,E)");
  require_optional_output(call, "weights", outputs.weights, {dims.B, dims.H, dims.N, K}, "(B,H,N,K)");
  require_optional_output(call, "column_sums", outputs.column_sums, {dims.B, dims.H, K}, "(B,H,K)");
  require_optional_output(call, "lse", outputs.lse, {dims.B, dims.H, dims.N}, "(B,H,N)");
  if (outputs.lse) {
    if (!std::holds_alternative<RowSum>(call.attention.normaliser) || sign_of(call.attention.kernel) == Sign::changing)
      refuse(call, "log-sum-exp exists only for a row sum over a kernel that does not change sign");
  }
}

void validate(const Call& call, const Gradients& gradients) {
  const Dims dims = call.dims();
  require_shape(call, "dy", gradients.dy, {dims.B, dims.H, dims.N, dims.E}, "(B,H,N,E)");
  require_floating(call, "dy", gradients.dy);
  if (gradients.y) {
    require_shape(call, "y", gradients.y, {dims.B, dims.H, dims.N, dims.E}, "(B,H,N,E)");
    require_floating(call, "y", gradients.y);
  }
  if (gradients.lse) {
    require_shape(call, "lse", gradients.lse, {dims.B, dims.H, dims.N}, "(B,H,N)");
    require_floating(call, "lse", gradients.lse);
  }
  require_optional_output(call, "dq", gradients.dq, call.q.shape, "the shape of q");
  require_optional_output(call, "dk", gradients.dk, call.k.shape, "the shape of k");
  require_optional_output(call, "dv", gradients.dv, call.v.shape, "the shape of v");
  require_optional_output(call, "dskip", gradients.dskip, {dims.B, dims.H, dims.N, dims.E}, "(B,H,N,E)");
  for (const auto& [name, tensor] : gradients.parameters) {
    require_parameter(call, name, tensor);
    const auto given = call.parameters.find(name);
    require_output(call, "gradient of " + name, tensor,
                   given == call.parameters.end() ? tensor.shape : given->second.shape, "the shape of the parameter");
  }
}

Tensor padding_mask(const std::vector<Index>& lengths, Index M) {
  Tensor mask(DType::u8, {static_cast<Index>(lengths.size()), M});
  for (Index b = 0; b < mask.shape()[0]; ++b) {
    if (lengths[b] < 0 || lengths[b] > M)
      throw InvalidArgument(
          fmt::format("sample {} has length {} but there are {} keys: use 0 to {}", b, lengths[b], M, M));
    for (Index j = 0; j < lengths[b]; ++j) mask.set(b * M + j, 1);
  }
  return mask;
}

std::vector<double> parameter_of(const Call& call, const std::string& name, Index head) {
  if (name.empty()) return {};
  if (const auto given = call.parameters.find(name); given != call.parameters.end()) {
    const TensorView& all = given->second;
    TensorView one = all;
    if (all.shape[0] != 1)
      one.data = static_cast<std::byte*>(all.data) + head * all.stride[0] * static_cast<Index>(size_of(all.dtype));
    one.shape.erase(one.shape.begin());
    one.stride.erase(one.stride.begin());
    std::vector<double> values(element_count(one.shape));
    saddle::detail::copy_to_double(one, values.data());
    return values;
  }
  for (const ParameterInfo& info : parameters(call.attention, call.dims()))
    if (info.name == name) {
      const auto count = info.initial.size() / static_cast<std::size_t>(info.shape[0]);
      return {info.initial.begin(), info.initial.begin() + static_cast<std::ptrdiff_t>(count)};
    }
  return {};
}

}  // namespace saddle::primal
