// Made up for the tests: how large the outputs of heads are.
#pragma once

#include "saddle/analysis/registry.hpp"

namespace saddle::analysis::toy {

SADDLE_API const Analysis& analysis();

}  // namespace saddle::analysis::toy
