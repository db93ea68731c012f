// The one parallel loop. OpenMP does the work behind it, so a process has a single pool of threads.
#pragma once

#include <memory>
#include <type_traits>

#include "saddle/base/export.hpp"
#include "saddle/base/view.hpp"

namespace saddle {

// Threads that loops use from now on; 0 goes back to what OpenMP would take (OMP_NUM_THREADS, else all cores).
SADDLE_API void set_threads(int count);
SADDLE_API int threads();

enum class Schedule {
  even,    // each thread gets one run of neighbouring chunks: for chunks of equal cost
  dynamic  // each thread takes the next chunk when it is free
};

struct LoopOptions {
  Schedule schedule = Schedule::even;
  int threads = 0;  // for this loop only; 0: threads()
};

namespace detail {

struct LoopBody {
  void* object;
  void (*call)(void* object, Index begin, Index end);
};
SADDLE_API void run_loop(Index n, Index grain, LoopBody body, const LoopOptions& options);

}  // namespace detail

// Calls body(begin, end) for the chunks [0,grain), [grain,2 grain), ... of [0,n), or body(i) for each i in them. Chunks
// depend on n and grain only, never on the number of threads. If bodies throw, the exception of the lowest chunk is
// rethrown after the loop; chunks above it may not have run. A loop inside a loop runs serially.
template <class Body>
void parallel_for(Index n, Index grain, Body&& body, const LoopOptions& options = {}) {
  using Plain = std::remove_reference_t<Body>;
  const auto call = [](void* object, Index begin, Index end) {
    Plain& f = *static_cast<Plain*>(object);
    if constexpr (std::is_invocable_v<Plain&, Index, Index>) {
      f(begin, end);
    } else {
      for (Index i = begin; i < end; ++i) f(i);
    }
  };
  void* object = const_cast<void*>(static_cast<const void*>(std::addressof(body)));
  detail::run_loop(n, grain, {object, call}, options);
}

}  // namespace saddle
