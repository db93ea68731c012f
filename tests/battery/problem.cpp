#include "problem.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "saddle/base/random.hpp"
#include "saddle/mechanisms/golden.hpp"
#include "saddle/mechanisms/registry.hpp"

namespace saddle::battery {

namespace {

constexpr std::byte guard{0xA5};
constexpr Index guard_elements = 16;

// Strides in elements for a layout; gaps between rows where the layout has them.
Shape strides_for(const Shape& shape, Layout layout) {
  if (layout == Layout::bhnd || shape.size() < 2) return dense_strides(shape);
  if (layout == Layout::padded_rows) {
    Shape wide = shape;
    wide.back() += 3;
    return dense_strides(wide);
  }
  if (shape.size() < 4) return dense_strides(shape);
  Shape swapped = shape;
  std::swap(swapped[1], swapped[2]);
  Shape stride = dense_strides(swapped);
  std::swap(stride[1], stride[2]);
  return stride;
}

Tensor random_tensor(const Shape& shape, Stream& stream, DType dtype) {
  Tensor tensor(dtype, shape);
  for (Index i = 0; i < tensor.size(); ++i) tensor.set(i, stream.normal());
  return tensor;
}

Tensor nan_tensor(const Shape& shape, DType dtype) {
  Tensor tensor(dtype, shape);
  for (Index i = 0; i < tensor.size(); ++i) tensor.set(i, std::numeric_limits<double>::quiet_NaN());
  return tensor;
}

// Calls visit(dense index, offset) in row-major order.
template <class Visit>
void for_each(const TensorView& view, Visit&& visit) {
  const Shape dense = dense_strides(view.shape);
  for (Index i = 0; i < element_count(view.shape); ++i) {
    Index offset = 0;
    for (std::size_t axis = 0; axis < view.shape.size(); ++axis)
      offset += (i / dense[axis]) % view.shape[axis] * view.stride[axis];
    visit(i, offset);
  }
}

}  // namespace

Guarded::Guarded(DType dtype, const Shape& shape, Layout layout) {
  view_ = {nullptr, dtype, shape, strides_for(shape, layout)};
  Index extent = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    extent += std::max<Index>(shape[axis] - 1, 0) * view_.stride[axis];
  const auto size = static_cast<Index>(size_of(dtype));
  bytes_.assign(static_cast<std::size_t>((extent + 2 * guard_elements) * size), guard);
  used_.assign(bytes_.size(), false);
  view_.data = bytes_.data() + guard_elements * size;
  for_each(view_, [&](Index, Index offset) {
    for (Index b = 0; b < size; ++b) used_[(guard_elements + offset) * size + b] = true;
  });
}

bool Guarded::guards_intact() const {
  for (std::size_t i = 0; i < bytes_.size(); ++i)
    if (!used_[i] && bytes_[i] != guard) return false;
  return true;
}

Tensor Guarded::dense() const {
  Tensor values(view_.dtype, view_.shape);
  for_each(view_, [&](Index i, Index offset) { values.set(i, load(view_, offset)); });
  return values;
}

void Guarded::fill(const Tensor& values) {
  for_each(view_, [&](Index i, Index offset) { store(view_, offset, values.at(i)); });
}

Problem::Problem(const BatteryCase& c, DType dtype, Masking masking, Layout layout, std::uint64_t seed) {
  Stream stream(seed, "battery");
  const Dims& d = c.dims;
  call.attention = mechanisms::parse(c.attention);
  const auto place = [&](const std::string& name, const Tensor& values, Layout how) {
    Guarded& slot = memory[name] = Guarded(values.dtype(), values.shape(), how);
    slot.fill(values);
    return slot.view();
  };
  call.q = place("q", random_tensor({d.B, d.H, d.N, d.D}, stream, dtype), layout);
  call.k = place("k", random_tensor({d.B, d.H, d.M, d.D}, stream, dtype), layout);
  call.v = place("v", random_tensor({d.B, d.H, d.M, d.E}, stream, dtype), layout);
  place("dy", random_tensor({d.B, d.H, d.N, d.E}, stream, dtype), layout);
  if (call.attention.residual) call.skip = place("skip", random_tensor({d.B, d.H, d.N, d.E}, stream, dtype), layout);
  for (const primal::ParameterInfo& info : primal::parameters(call.attention, d)) {
    Tensor values(dtype, info.shape);
    for (Index i = 0; i < values.size(); ++i) values.set(i, info.initial[i] + 0.3 * stream.normal());
    call.parameters[info.name] = place("parameter " + info.name, values, Layout::bhnd);
  }
  if (masking == Masking::padding || masking == Masking::everything) {
    Tensor keep(DType::u8, {d.B, d.M});
    for (Index i = 0; i < keep.size(); ++i) keep.set(i, stream.uniform() < 0.7 ? 1 : 0);  // with holes
    call.key_mask = place("key_mask", keep, Layout::bhnd);
  }
  if (masking == Masking::mask || masking == Masking::empty_rows || masking == Masking::everything) {
    Tensor mask(DType::u8, {d.B, d.H, d.N, d.M});
    for (Index i = 0; i < mask.size(); ++i) {
      const bool empty = masking != Masking::mask && i / d.M % 2 == 1;  // every second query
      mask.set(i, !empty && stream.uniform() < 0.6 ? 1 : 0);
    }
    call.mask = place("mask", mask, layout);
  }
}

Problem Problem::nudged(double u, std::uint64_t seed) const {
  Problem other;
  Stream stream(seed, "nudge");
  other.call.attention = call.attention;
  other.call.dropout = call.dropout;
  for (const auto& [name, slot] : memory) {
    Tensor values = slot.dense();
    const bool floating = is_floating(values.dtype());
    Tensor moved(floating ? DType::f64 : values.dtype(), values.shape());
    for (Index i = 0; i < values.size(); ++i)
      moved.set(i, values.at(i) * (floating ? 1 + u * (2 * stream.uniform() - 1) : 1));
    Guarded& place = other.memory[name] = Guarded(moved.dtype(), moved.shape(), Layout::bhnd);
    place.fill(moved);
    for (auto [own, view] : {std::pair{"q", &other.call.q},
                             {"k", &other.call.k},
                             {"v", &other.call.v},
                             {"skip", &other.call.skip},
                             {"key_mask", &other.call.key_mask},
                             {"mask", &other.call.mask}})
      if (name == own) *view = place.view();
    if (name.starts_with("parameter ")) other.call.parameters[name.substr(10)] = place.view();
  }
  return other;
}

Results run(const kernels::Implementation& implementation, const Problem& problem, Layout layout, bool optional,
            bool saved) {
  const primal::Call& call = problem.call;
  const Dims d = call.dims();
  const DType dtype = call.dtype();
  std::map<std::string, Guarded> memory;
  const auto place_as = [&](DType type, const std::string& name, const Shape& shape) {
    Guarded& slot = memory[name] = Guarded(type, shape, layout);
    slot.fill(nan_tensor(shape, type));
    return slot.view();
  };
  const auto place = [&](const std::string& name, const Shape& shape) { return place_as(dtype, name, shape); };
  primal::Outputs outputs;
  outputs.y = place("y", {d.B, d.H, d.N, d.E});
  const bool positive_sum = std::holds_alternative<primal::RowSum>(call.attention.normaliser) &&
                            sign_of(call.attention.kernel) != primal::Sign::changing;
  if (positive_sum)  // rounded to bf16 it says nothing about weights
    outputs.lse = place_as(saved && dtype == DType::bf16 ? DType::f32 : dtype, "lse", {d.B, d.H, d.N});
  if (optional) {
    const Index K = primal::weight_columns(call.attention, d);
    outputs.weights = place("weights", {d.B, d.H, d.N, K});
    outputs.column_sums = place("column_sums", {d.B, d.H, K});
  }
  implementation.forward(call, outputs);
  primal::Gradients gradients;
  gradients.dy = problem.memory.at("dy").view();
  gradients.dq = place("dq", call.q.shape);
  gradients.dk = place("dk", call.k.shape);
  gradients.dv = place("dv", call.v.shape);
  if (call.skip) gradients.dskip = place("dskip", call.skip.shape);
  for (const auto& [name, tensor] : call.parameters) gradients.parameters[name] = place("d" + name, tensor.shape);
  if (saved) {
    gradients.y = outputs.y;
    gradients.lse = outputs.lse;
  }
  implementation.backward(call, gradients);
  Results results;
  for (const auto& [name, slot] : memory) {
    results.tensors[name] = slot.dense();
    results.guards_intact &= slot.guards_intact();
  }
  for (const auto& [name, slot] : problem.memory) results.guards_intact &= slot.guards_intact();
  return results;
}

double error(const Tensor& computed, const Tensor& expected) { return mechanisms::golden_error(computed, expected); }

double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64: return 1e-11;
    case DType::f32: return 2e-6;
    default: return 1e-2;
  }
}

// The one that accepts everything; it comes last.
const kernels::Implementation& the_reference() { return *kernels::generic_implementations().back(); }

std::map<std::string, double> sensitivity(const Problem& problem, const Results& expected) {
  // bf16 tensors are computed with in float; the tolerance stands for their own rounding.
  const double unit = problem.call.dtype() == DType::f64 ? 0x1p-53 : 0x1p-24;
  constexpr double roundings = 32;
  std::map<std::string, double> moved;
  for (std::uint64_t seed : {2, 3, 4}) {
    const Results results = run(the_reference(), problem.nudged(roundings * unit, seed));
    for (const auto& [name, tensor] : expected.tensors)
      moved[name] = std::max(moved[name], error(results.tensors.at(name), tensor));
  }
  return moved;
}

}  // namespace saddle::battery
