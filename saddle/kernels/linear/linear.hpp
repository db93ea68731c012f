// The linear kernel: finite features in the primal form, O(F E) per token, forward and backward.
#pragma once

#include "saddle/kernels/implementation.hpp"

namespace saddle::kernels {

// With the best instruction set of this machine up to the given one.
SADDLE_API const Implementation& linear(Isa at_most = Isa::avx512);

}  // namespace saddle::kernels
