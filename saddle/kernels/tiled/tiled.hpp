// The tiled implementation: any declared attention in O(N) memory, forward and backward.
#pragma once

#include "saddle/kernels/implementation.hpp"

namespace saddle::kernels {

SADDLE_API const Implementation& tiled();

}  // namespace saddle::kernels
