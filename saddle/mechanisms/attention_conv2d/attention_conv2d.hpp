// Attention-Conv2D: the primal layer convolves its input on a grid with a learnable kernel.
#pragma once

#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms::attention_conv2d {

const Mechanism& mechanism();

}  // namespace saddle::mechanisms::attention_conv2d
