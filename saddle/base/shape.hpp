// Shapes, and the project's letters for them.
#pragma once

#include <string>
#include <vector>

#include "saddle/base/export.hpp"
#include "saddle/base/view.hpp"

namespace saddle {

using Shape = std::vector<Index>;

// "(2,4,31,16)"
SADDLE_API std::string to_string(const Shape& shape);
// Product of the extents; throws InvalidArgument on a negative extent or overflow.
SADDLE_API Index element_count(const Shape& shape);
// Row-major strides in elements.
SADDLE_API Shape dense_strides(const Shape& shape);

// The letters of the project: B batch, H heads, N queries, M keys, D key width, E value width.
struct Dims {
  Index B = 1, H = 1, N = 1, M = 1, D = 1, E = 1;
  bool operator==(const Dims&) const = default;
};

}  // namespace saddle
