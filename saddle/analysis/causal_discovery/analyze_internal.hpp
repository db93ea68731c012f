// The analysis as the command line asks for it.
#pragma once

#include "saddle/analysis/registry.hpp"

namespace saddle::analysis::causal_discovery {

Result on_file(const std::string& file, analysis::Options& options);
Result on_model(const ProbedModel& model, analysis::Options& options);

}  // namespace saddle::analysis::causal_discovery
