// Attention-BN+SH: pool the keys of each head, then batch-normalise with the statistics of the pooled keys.
#pragma once

#include "saddle/mechanisms/registry.hpp"

namespace saddle::mechanisms::attention_bn_sh {

const Mechanism& mechanism();

}  // namespace saddle::mechanisms::attention_bn_sh
