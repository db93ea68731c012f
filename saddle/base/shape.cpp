#include "saddle/base/shape.hpp"

#include <algorithm>

#include "saddle/base/error.hpp"

namespace saddle {

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (axis > 0) text += ',';
    text += std::to_string(shape[axis]);
  }
  return text + ')';
}

Index element_count(const Shape& shape) {
  Index count = 1;
  bool empty = false;
  for (Index extent : shape) {
    empty |= extent == 0;  // strides must not overflow either, so an empty shape is measured without its zeros
    if (extent < 0 || __builtin_mul_overflow(count, std::max<Index>(extent, 1), &count))
      throw InvalidArgument("shape " + to_string(shape) + " is negative or too large to address");
  }
  return empty ? 0 : count;
}

Shape dense_strides(const Shape& shape) {
  Shape stride(shape.size());
  Index step = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    stride[axis] = step;
    step *= std::max<Index>(shape[axis], 1);
  }
  return stride;
}

}  // namespace saddle
