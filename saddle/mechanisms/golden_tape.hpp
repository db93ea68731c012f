// Golden cases of whatever is written on the tape: outputs and gradients by name.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "saddle/base/export.hpp"
#include "saddle/base/tape.hpp"
#include "saddle/mechanisms/golden.hpp"

namespace saddle::mechanisms {

using TapeValues = std::map<std::string, tape::Value>;

// Every tensor `in.*` and `param.*` of a case, by its full name.
SADDLE_API TapeValues tape_inputs(const TensorFile& golden);
// Those that begin with `prefix`, without it.
SADDLE_API TapeValues without_prefix(const TapeValues& values, const std::string& prefix);

// Compares `outputs` (without "out.") with every out.* of the case, then the gradients of sum over cot.* of
// <cot.NAME, NAME> with every grad.NAME, which belongs to param.NAME or in.NAME of `inputs`.
SADDLE_API GoldenResult compare_tape(const TensorFile& golden, const TapeValues& inputs, const TapeValues& outputs,
                                     double tolerance, std::string implementation = "reference");

}  // namespace saddle::mechanisms
