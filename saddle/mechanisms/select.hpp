// From a request to the implementation that runs: each one refuses with reasons or names its cost, the cheapest runs.
#pragma once

#include <string>
#include <vector>

#include "saddle/base/export.hpp"
#include "saddle/kernels/implementation.hpp"

namespace saddle::mechanisms {

struct Candidate {
  const kernels::Implementation* implementation = nullptr;
  std::vector<std::string> refusals;
  kernels::Estimate estimate;
};

struct Selection {
  std::vector<Candidate> candidates;
  const kernels::Implementation* chosen = nullptr;  // null: all refused
  std::string reason;                               // one line on the choice
};

SADDLE_API Selection select(const kernels::Request& request);
// The table of a selection as text, one line per implementation.
SADDLE_API std::string explain(const kernels::Request& request, const Selection& selection);

// Validates, selects and runs. Throws NotSupported with every refusal when nothing accepts.
SADDLE_API void forward(const primal::Call& call, const primal::Outputs& outputs);
SADDLE_API void backward(const primal::Call& call, const primal::Gradients& gradients);

}  // namespace saddle::mechanisms
