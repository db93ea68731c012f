// Strided views over memory that somebody else owns, and the dense arrays that own it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace saddle {

using Index = std::int64_t;

// A view of Rank dimensions with strides in elements. Strides may be zero (broadcast) or negative.
template <class T, int Rank>
struct View {
  T* data = nullptr;
  std::array<Index, Rank> shape{};
  std::array<Index, Rank> stride{};

  template <class... I>
  requires(sizeof...(I) == Rank) T& operator()(I... i) const {
    Index offset = 0;
    int axis = 0;
    ((offset += static_cast<Index>(i) * stride[axis++]), ...);
    return data[offset];
  }

  // The sub-view at index i of the first dimension.
  View<T, Rank - 1> operator[](Index i) const requires(Rank > 1) {
    View<T, Rank - 1> sub;
    sub.data = data + i * stride[0];
    std::copy(shape.begin() + 1, shape.end(), sub.shape.begin());
    std::copy(stride.begin() + 1, stride.end(), sub.stride.begin());
    return sub;
  }
  T& operator[](Index i) const requires(Rank == 1) { return data[i * stride[0]]; }

  Index size() const {
    Index n = 1;
    for (Index s : shape) n *= s;
    return n;
  }
  explicit operator bool() const { return data != nullptr; }
  operator View<const T, Rank>() const requires(!std::is_const_v<T>) { return {data, shape, stride}; }
};

// Row-major strides of a dense array of this shape.
template <int Rank>
std::array<Index, Rank> dense_strides(const std::array<Index, Rank>& shape) {
  std::array<Index, Rank> stride{};
  Index step = 1;
  for (int axis = Rank - 1; axis >= 0; --axis) {
    stride[axis] = step;
    step *= shape[axis];
  }
  return stride;
}

// A dense row-major array that owns its memory, zero-initialised.
template <class T, int Rank>
class Array {
 public:
  Array() = default;
  explicit Array(const std::array<Index, Rank>& shape, T fill = T{}) : shape_(shape) {
    Index n = 1;
    for (Index s : shape) n *= s;
    values_.assign(static_cast<std::size_t>(n), fill);
  }

  View<T, Rank> view() { return {values_.data(), shape_, dense_strides<Rank>(shape_)}; }
  View<const T, Rank> view() const { return {values_.data(), shape_, dense_strides<Rank>(shape_)}; }
  operator View<T, Rank>() { return view(); }
  operator View<const T, Rank>() const { return view(); }

  template <class... I>
  T& operator()(I... i) {
    return values_[offset(i...)];
  }
  template <class... I>
  const T& operator()(I... i) const {
    return values_[offset(i...)];
  }

  const std::array<Index, Rank>& shape() const { return shape_; }
  Index size() const { return static_cast<Index>(values_.size()); }
  bool empty() const { return values_.empty(); }
  T* data() { return values_.data(); }
  const T* data() const { return values_.data(); }
  auto begin() { return values_.begin(); }
  auto end() { return values_.end(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  bool operator==(const Array&) const = default;

 private:
  template <class... I>
  std::size_t offset(I... i) const {
    static_assert(sizeof...(I) == Rank);
    Index at = 0;
    int axis = 0;
    ((at = at * shape_[axis++] + static_cast<Index>(i)), ...);
    return static_cast<std::size_t>(at);
  }

  std::array<Index, Rank> shape_{};
  std::vector<T> values_;
};

using Vector = Array<double, 1>;
using Matrix = Array<double, 2>;
// Row i of a dense matrix.
inline std::span<double> row(Matrix& x, Index i) {
  const auto width = static_cast<std::size_t>(x.shape()[1]);
  return {x.data() + i * x.shape()[1], width};
}
inline std::span<const double> row(const Matrix& x, Index i) {
  const auto width = static_cast<std::size_t>(x.shape()[1]);
  return {x.data() + i * x.shape()[1], width};
}

using VectorView = View<const double, 1>;
using MatrixView = View<const double, 2>;

}  // namespace saddle
