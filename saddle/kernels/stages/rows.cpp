#include "saddle/kernels/stages/rows.hpp"

#include <type_traits>

#include "saddle/kernels/dense/core.hpp"

namespace saddle::kernels::stages {

namespace {

// Asked for once: every set of instructions gives the same bits.
const dense::Core& simd() {
  static const dense::Core& table = dense::core();
  return table;
}

template <class S, class T>
void convert(const S* from, Index from_stride, T* to, Index to_stride, Index n) {
  if (from_stride == 1 && to_stride == 1) {
    if constexpr (std::is_same_v<S, BFloat16> && std::is_same_v<T, float>) return simd().widen(from, to, n);
    if constexpr (std::is_same_v<S, float> && std::is_same_v<T, BFloat16>) return simd().narrow(from, to, n);
    for (Index c = 0; c < n; ++c) to[c] = static_cast<T>(from[c]);
    return;
  }
  for (Index c = 0; c < n; ++c) to[c * to_stride] = static_cast<T>(from[c * from_stride]);
}

// Calls visit(first element of row i) with its type.
template <class Visit>
void with_row(const Slice& slice, Index i, Visit&& visit) {
  std::byte* row = slice.data + i * slice.row_stride * static_cast<Index>(size_of(slice.dtype));
  switch (slice.dtype) {
    case DType::f64: visit(reinterpret_cast<double*>(row)); break;
    case DType::f32: visit(reinterpret_cast<float*>(row)); break;
    case DType::bf16: visit(reinterpret_cast<BFloat16*>(row)); break;
    default: break;  // validation leaves floating tensors only
  }
}

}  // namespace

Slice slice_of(const TensorView& tensor, Index b, Index h) {
  if (!tensor) return {};
  std::byte* data = static_cast<std::byte*>(tensor.data) +
                    (b * tensor.stride[0] + h * tensor.stride[1]) * static_cast<Index>(size_of(tensor.dtype));
  return {data, tensor.dtype, tensor.shape[2], tensor.shape[3], tensor.stride[2], tensor.stride[3]};
}

template <class T>
void load_row(const Slice& slice, Index i, T* row) {
  with_row(slice, i, [&](const auto* from) { convert(from, slice.column_stride, row, 1, slice.columns); });
}

template <class T>
void store_row(const Slice& slice, Index i, const T* row) {
  with_row(slice, i, [&](auto* to) { convert(row, 1, to, slice.column_stride, slice.columns); });
}

template void load_row(const Slice&, Index, float*);
template void load_row(const Slice&, Index, double*);
template void store_row(const Slice&, Index, const float*);
template void store_row(const Slice&, Index, const double*);

}  // namespace saddle::kernels::stages
