// Sparse attention: softmax over a subset of the keys, chosen by a pattern.
#pragma once

#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms::sparse {

const Mechanism& mechanism();

}  // namespace saddle::mechanisms::sparse
