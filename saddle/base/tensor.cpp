#include "saddle/base/tensor.hpp"

#include <cmath>

namespace saddle {

namespace {

// Calls visit(flat offset) for every element in row-major order.
template <class Visit>
void for_each_offset(const TensorView& tensor, Visit&& visit) {
  const Index count = element_count(tensor.shape);
  Shape at(tensor.shape.size(), 0);
  Index offset = 0;
  for (Index i = 0; i < count; ++i) {
    visit(offset);
    for (std::size_t axis = at.size(); axis-- > 0;) {
      offset += tensor.stride[axis];
      if (++at[axis] < tensor.shape[axis]) break;
      offset -= tensor.stride[axis] * tensor.shape[axis];
      at[axis] = 0;
    }
  }
}

}  // namespace

double load(const TensorView& tensor, Index offset) {
  switch (tensor.dtype) {
    case DType::f64: return static_cast<const double*>(tensor.data)[offset];
    case DType::f32: return static_cast<double>(static_cast<const float*>(tensor.data)[offset]);
    case DType::bf16: return static_cast<double>(static_cast<const BFloat16*>(tensor.data)[offset]);
    case DType::i64: return static_cast<double>(static_cast<const std::int64_t*>(tensor.data)[offset]);
    case DType::i32: return static_cast<double>(static_cast<const std::int32_t*>(tensor.data)[offset]);
    case DType::u8:
    case DType::boolean: return static_cast<double>(static_cast<const std::uint8_t*>(tensor.data)[offset]);
  }
  return std::nan("");
}

void store(const TensorView& tensor, Index offset, double value) {
  switch (tensor.dtype) {
    case DType::f64: static_cast<double*>(tensor.data)[offset] = value; break;
    case DType::f32: static_cast<float*>(tensor.data)[offset] = static_cast<float>(value); break;
    case DType::bf16: static_cast<BFloat16*>(tensor.data)[offset] = BFloat16(value); break;
    case DType::i64: static_cast<std::int64_t*>(tensor.data)[offset] = static_cast<std::int64_t>(value); break;
    case DType::i32: static_cast<std::int32_t*>(tensor.data)[offset] = static_cast<std::int32_t>(value); break;
    case DType::u8: static_cast<std::uint8_t*>(tensor.data)[offset] = static_cast<std::uint8_t>(value); break;
    case DType::boolean: static_cast<std::uint8_t*>(tensor.data)[offset] = value != 0 ? 1 : 0; break;
  }
}

Tensor::Tensor(DType dtype, Shape shape) : dtype_(dtype), shape_(std::move(shape)) {
  bytes_.resize(static_cast<std::size_t>(element_count(shape_)) * size_of(dtype_));
}

// A tensor without elements is still there: its view must not look absent. One without a shape is absent.
TensorView Tensor::view() const {
  alignas(8) static std::byte nothing{};
  std::byte* data = bytes_.empty() && !shape_.empty() ? &nothing : const_cast<std::byte*>(bytes_.data());
  return {data, dtype_, shape_, dense_strides(shape_)};
}

namespace detail {

void copy_to_double(const TensorView& from, double* to) {
  for_each_offset(from, [&](Index offset) { *to++ = load(from, offset); });
}

void copy_from_double(const double* from, const TensorView& to) {
  for_each_offset(to, [&](Index offset) { store(to, offset, *from++); });
}

void require_rank(const TensorView& tensor, int rank) {
  if (tensor.rank() != rank)
    throw InvalidArgument("expected a tensor with " + std::to_string(rank) + " dimensions but found shape " +
                          to_string(tensor.shape));
}

}  // namespace detail

}  // namespace saddle
