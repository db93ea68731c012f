// Softmax attention: exp-dot kernel, row-sum normaliser.
#pragma once

#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms::softmax {

const Mechanism& mechanism();

}  // namespace saddle::mechanisms::softmax
