// Tensors whose element type is known at run time: borrowed (TensorView), owned (Tensor), and named sets of them.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "saddle/base/dtype.hpp"
#include "saddle/base/error.hpp"
#include "saddle/base/export.hpp"
#include "saddle/base/shape.hpp"

namespace saddle {

// Borrowed memory with a run-time dtype; strides in elements, zero means broadcast.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f64;
  Shape shape;
  Shape stride;

  explicit operator bool() const { return data != nullptr; }
  int rank() const { return static_cast<int>(shape.size()); }
};

// The element at a flat offset, as double.
SADDLE_API double load(const TensorView& tensor, Index offset);
SADDLE_API void store(const TensorView& tensor, Index offset, double value);

// Owned, dense, row-major.
class SADDLE_API Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, Shape shape);  // zero-filled

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  Index size() const { return element_count(shape_); }
  std::vector<std::byte>& bytes() { return bytes_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }

  // Views share this tensor's memory. A const tensor hands out the same type: callers read only.
  TensorView view() const;
  double at(Index offset) const { return load(view(), offset); }
  void set(Index offset, double value) { store(view(), offset, value); }

  bool operator==(const Tensor&) const = default;

 private:
  DType dtype_ = DType::f64;
  Shape shape_;
  std::vector<std::byte> bytes_;
};

// The contents of a safetensors file: named tensors and string metadata.
struct TensorFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Copies a tensor of any dtype and strides into a dense double array of the given rank, and back (rounding once).
template <int Rank>
Array<double, Rank> to_double(const TensorView& from);
template <int Rank>
void from_double(const Array<double, Rank>& from, const TensorView& to);

// A tensor of the given dtype with the values of a dense double array.
template <int Rank>
Tensor to_tensor(const Array<double, Rank>& from, DType dtype = DType::f64) {
  Tensor tensor(dtype, Shape(from.shape().begin(), from.shape().end()));
  from_double(from, tensor.view());
  return tensor;
}

namespace detail {

SADDLE_API void copy_to_double(const TensorView& from, double* to);
SADDLE_API void copy_from_double(const double* from, const TensorView& to);
SADDLE_API void require_rank(const TensorView& tensor, int rank);

}  // namespace detail

template <int Rank>
Array<double, Rank> to_double(const TensorView& from) {
  detail::require_rank(from, Rank);
  std::array<Index, Rank> shape{};
  std::copy(from.shape.begin(), from.shape.end(), shape.begin());
  Array<double, Rank> to(shape);
  detail::copy_to_double(from, to.data());
  return to;
}

template <int Rank>
void from_double(const Array<double, Rank>& from, const TensorView& to) {
  if (Shape(from.shape().begin(), from.shape().end()) != to.shape)
    throw InvalidArgument("cannot copy values of shape " + to_string(Shape(from.shape().begin(), from.shape().end())) +
                          " into a tensor of shape " + to_string(to.shape));
  detail::copy_from_double(from.data(), to);
}

}  // namespace saddle
