// Counts what operator new hands out. Include it in one source of a test program: it replaces the operators.
#pragma once

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

// Sanitizers bring operators of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SADDLE_COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SADDLE_COUNTS_ALLOCATIONS 0
#endif
#endif
#ifndef SADDLE_COUNTS_ALLOCATIONS
#define SADDLE_COUNTS_ALLOCATIONS 1
#endif

#if SADDLE_COUNTS_ALLOCATIONS

namespace saddle::allocations {

inline std::atomic<std::size_t> live{0}, peak{0};  // bytes
inline std::atomic<std::size_t> largest{0};        // that was asked for at once

inline void raise(std::atomic<std::size_t>& maximum, std::size_t value) {
  for (std::size_t seen = maximum; value > seen && !maximum.compare_exchange_weak(seen, value);) {
  }
}

inline void* allocate(std::size_t size) {
  raise(largest, size);
  void* pointer = std::malloc(size);
  if (pointer == nullptr) throw std::bad_alloc();
  raise(peak, live += malloc_usable_size(pointer));
  return pointer;
}

inline void release(void* pointer) {
  if (pointer != nullptr) live -= malloc_usable_size(pointer);
  std::free(pointer);
}

}  // namespace saddle::allocations

void* operator new(std::size_t size) { return saddle::allocations::allocate(size); }
void* operator new[](std::size_t size) { return saddle::allocations::allocate(size); }
void operator delete(void* pointer) noexcept { saddle::allocations::release(pointer); }
void operator delete[](void* pointer) noexcept { saddle::allocations::release(pointer); }
void operator delete(void* pointer, std::size_t) noexcept { saddle::allocations::release(pointer); }
void operator delete[](void* pointer, std::size_t) noexcept { saddle::allocations::release(pointer); }

#endif
