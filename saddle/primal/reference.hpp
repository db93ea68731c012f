// The obvious version: the dual expansion y_i = sum_j A_ij v_j in double, row by row, and its gradient. It judges
// every faster implementation.
#pragma once

#include "saddle/primal/call.hpp"

namespace saddle::primal {

// Both expect a validated call.
SADDLE_API void reference_forward(const Call& call, const Outputs& outputs);
SADDLE_API void reference_backward(const Call& call, const Gradients& gradients);

}  // namespace saddle::primal
