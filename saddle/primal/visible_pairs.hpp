// How many pairs of query and key an attention shows.
#pragma once

#include "saddle/base/export.hpp"
#include "saddle/primal/attention.hpp"

namespace saddle::primal {

// Sum of |M_i| over all queries of a head, keys pooled. Quick for any extents, as every choice of a kernel asks for it:
// exact for causal, window, local and global_window, and for few queries, else extrapolated from rows spread evenly.
SADDLE_API double visible_pairs(const Attention& attention, const Dims& dims, Index head);

}  // namespace saddle::primal
