// Causal graphs from the attention of a trained model or from a table, and explanations of predictions by them.
#pragma once

#include "saddle/analysis/causal_discovery/cleann.hpp"
#include "saddle/analysis/causal_discovery/correlation.hpp"
#include "saddle/analysis/causal_discovery/graph.hpp"
#include "saddle/analysis/causal_discovery/independence.hpp"
#include "saddle/analysis/causal_discovery/learn.hpp"
#include "saddle/analysis/causal_discovery/orientation.hpp"
#include "saddle/analysis/causal_discovery/output.hpp"
#include "saddle/analysis/causal_discovery/pds_tree.hpp"
#include "saddle/analysis/causal_discovery/request.hpp"
#include "saddle/analysis/causal_discovery/table.hpp"
#include "saddle/analysis/causal_discovery/truth.hpp"
#include "saddle/analysis/registry.hpp"

namespace saddle::analysis::causal_discovery {

SADDLE_API const Analysis& analysis();

// Golden cases `causal-discovery`; computed in f64 whatever the dtype.
SADDLE_API mechanisms::GoldenReport check(const TensorFile& golden, DType dtype);

}  // namespace saddle::analysis::causal_discovery
