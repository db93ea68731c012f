// Rows of one head: where they lie in a tensor, how they are read and written as T, and memory for copies.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "saddle/base/tensor.hpp"
#include "saddle/kernels/stages/score_problem.hpp"

namespace saddle::kernels::stages {

// Tokens that exist; empty: all do.
using Kept = std::span<const std::uint8_t>;
inline bool kept_at(Kept keep, Index j) { return keep.empty() || keep[static_cast<std::size_t>(j)] != 0; }

// Sample b, head h of a tensor [B,H,n,C] as [n,C]; strides in elements. Without data where the tensor is absent.
struct Slice {
  std::byte* data = nullptr;
  DType dtype = DType::f64;
  Index rows = 0, columns = 0;
  Index row_stride = 0, column_stride = 0;

  explicit operator bool() const { return data != nullptr; }
  bool unit_columns() const { return column_stride == 1 || columns <= 1; }
};
Slice slice_of(const TensorView& tensor, Index b, Index h);

template <class T>
constexpr DType dtype_of() {
  if (std::is_same_v<T, double>) return DType::f64;
  return std::is_same_v<T, float> ? DType::f32 : DType::bf16;
}

// The rows themselves where they are of type T with unit column stride, else null.
template <class T>
Rows<T> in_place(const Slice& slice) {
  if (!slice || slice.dtype != dtype_of<T>() || !slice.unit_columns()) return {};
  return {reinterpret_cast<T*>(slice.data), slice.row_stride};
}

// One row as T, rounded once on the way out.
template <class T>
void load_row(const Slice& slice, Index i, T* row);
template <class T>
void store_row(const Slice& slice, Index i, const T* row);

// Rows [n,C] that are owned, dense and aligned to a cache line; what they hold at first is undefined.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(Index n, Index columns)
      : memory_(std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(n * columns) * sizeof(T) + 64)) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
    rows_ = {reinterpret_cast<T*>((address + 63) / 64 * 64), columns};
  }
  Rows<T> rows() const { return rows_; }
  T* data() const { return rows_.data; }
  explicit operator bool() const { return memory_ != nullptr; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  Rows<T> rows_;
};

// Reads rows as T: in place where possible, else converted into one of `slots` scratch rows.
template <class T>
class Reader {
 public:
  static constexpr int slots = 8;

  Reader(Rows<const T> rows, Index columns) : rows_(rows), columns_(columns) {}
  explicit Reader(const Slice& slice) : rows_(in_place<T>(slice)), slice_(slice), columns_(slice.columns) {
    if (!rows_) scratch_.resize(static_cast<std::size_t>(slots * columns_));
  }

  Index columns() const { return columns_; }
  // Row i, valid until the slot is used again.
  const T* row(Index i, int slot = 0) {
    if (rows_) return rows_[i];
    T* out = scratch_.data() + slot * columns_;
    load_row(slice_, i, out);
    return out;
  }

 private:
  Rows<const T> rows_;
  Slice slice_;
  Index columns_;
  std::vector<T> scratch_;
};

}  // namespace saddle::kernels::stages
