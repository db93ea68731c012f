// Several processes on this machine that train together.
#pragma once

#include "saddle/base/view.hpp"

namespace saddle::cli {

// Starts this program again, once for each worker, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set, and waits.
// The exit code is that of the first worker that failed. When one dies the others have a bounded time to stop.
int launch(Index workers);

// Was this process started as one of several?
bool is_worker();
// How many of them share this machine: LOCAL_WORLD_SIZE, else 1.
Index local_workers();
// Seconds until a worker that does not answer counts as lost: SADDLE_WORKER_TIMEOUT, else 60.
double worker_timeout();

}  // namespace saddle::cli
