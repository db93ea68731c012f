// A made-up mechanism: unit vectors under an RBF kernel, in a window. It shows that one folder is all it takes.
#pragma once

#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms::attention_toy {

const Mechanism& mechanism();

}  // namespace saddle::mechanisms::attention_toy
