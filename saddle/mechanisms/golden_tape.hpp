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

// How much of a case is to be computed: every out.* of it, or what `outputs` happens to have, which includes at least
// one and all that have a cot.*.
enum class Coverage { every_output, given_outputs };

// Who computes a case, if not the references: what it is called, and how near it must come to the numbers.
struct GoldenRun {
  std::string implementation = "reference";
  double tolerance;
  Coverage coverage = Coverage::every_output;
};
// The references, which run in f64 whatever is asked for.
SADDLE_API GoldenRun reference_run(DType asked, double tolerance);

// Compares `outputs` (without "out.") with every out.* of the case, then the gradients of sum over cot.* of
// <cot.NAME, NAME> with every grad.NAME, which belongs to param.NAME or in.NAME of `inputs`.
SADDLE_API GoldenResult compare_tape(const TensorFile& golden, const TapeValues& inputs, const TapeValues& outputs,
                                     const GoldenRun& run);

}  // namespace saddle::mechanisms
