// Attention-BN: the primal layer batch-normalises its input with the statistics of the keys.
#pragma once

#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms::attention_bn {

const Mechanism& mechanism();

}  // namespace saddle::mechanisms::attention_bn
