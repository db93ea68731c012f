// Golden cases through torch: operators, modules and models on what was recorded.
#pragma once

#include "saddle/mechanisms/golden.hpp"
#include "saddle/nn/export.hpp"

namespace saddle::nn {

// Checks that answer for the names of the references too: declared attentions by the operator and by
// MultiheadAttention, layers by their modules, encodings of time, models of events and of tables. In f64 and f32; cases
// that have no module are refused with a reason.
SADDLE_TORCH_API std::vector<mechanisms::GoldenCheck> golden_checks();

}  // namespace saddle::nn
