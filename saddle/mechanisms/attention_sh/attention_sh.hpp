// Attention-SH: each head is fitted on average-pooled keys and values, with its own factor.
#pragma once

#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms::attention_sh {

const Mechanism& mechanism();

}  // namespace saddle::mechanisms::attention_sh
