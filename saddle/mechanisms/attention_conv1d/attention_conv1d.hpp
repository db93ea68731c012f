// Attention-Conv1D: the primal layer convolves its input with a learnable kernel.
#pragma once

#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms::attention_conv1d {

const Mechanism& mechanism();

}  // namespace saddle::mechanisms::attention_conv1d
