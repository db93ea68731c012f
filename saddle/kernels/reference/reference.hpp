// The two double-precision references as implementations: the dual expansion and the primal form.
#pragma once

#include "saddle/kernels/implementation.hpp"

namespace saddle::kernels {

const Implementation& dual_reference();
const Implementation& primal_reference();

}  // namespace saddle::kernels
