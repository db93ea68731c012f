// The AMX implementation: bfloat16 softmax attention on tile registers, forward and backward.
#pragma once

#include "saddle/kernels/implementation.hpp"

namespace saddle::kernels {

SADDLE_API const Implementation& amx();

}  // namespace saddle::kernels
