// How a product is cut into tasks. Results do not depend on it, so it may follow the number of threads.
#pragma once

#include <algorithm>

#include "saddle/base/parallel.hpp"

namespace saddle::kernels::dense {

// `blocks` x `groups` tasks; a group is `size` of the inner units.
struct Tasks {
  Index blocks, groups, size;

  // Inner units stay together unless there would be too few tasks to share out evenly.
  Tasks(Index outer, Index inner, Index per_thread = 16) : blocks(outer), groups(1), size(std::max<Index>(inner, 1)) {
    const Index wanted = threads() == 1 ? 1 : per_thread * threads();
    if (blocks < wanted && blocks > 0) size = std::max<Index>(1, inner * blocks / wanted);
    groups = (std::max<Index>(inner, 1) + size - 1) / size;
  }
  Index count() const { return blocks * groups; }
};

}  // namespace saddle::kernels::dense
