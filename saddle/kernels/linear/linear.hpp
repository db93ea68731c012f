// The linear kernel: finite features in the primal form, O(F E) per token, forward and backward.
#pragma once

#include "saddle/kernels/implementation.hpp"

namespace saddle::kernels {

SADDLE_API const Implementation& linear();

}  // namespace saddle::kernels
