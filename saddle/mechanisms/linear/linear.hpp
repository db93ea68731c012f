// Linear attention: a finite feature map, so that the primal form costs O(N).
#pragma once

#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms::linear {

const Mechanism& mechanism();

}  // namespace saddle::mechanisms::linear
