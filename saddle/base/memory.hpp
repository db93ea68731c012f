// How the process keeps memory that it will need again.
#pragma once

#include "saddle/base/export.hpp"

namespace saddle {

// Large blocks stay on the heap when they are freed, instead of going back to the system page by page: a training step
// that allocates the same tensors again and again then touches no fresh pages. For programs that train; call it before
// the first large allocation. Does nothing where the C library is not glibc, or where GLIBC_TUNABLES say otherwise.
SADDLE_API void keep_large_blocks();

}  // namespace saddle
