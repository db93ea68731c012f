// Point 12: what an implementation allocates stays below what it predicts.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "problem.hpp"

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

namespace {

std::atomic<std::size_t> live{0}, peak{0};

void* count(void* pointer) {
  if (pointer == nullptr) throw std::bad_alloc();
  const std::size_t now = live += malloc_usable_size(pointer);
  for (std::size_t seen = peak; now > seen && !peak.compare_exchange_weak(seen, now);) {
  }
  return pointer;
}

void release(void* pointer) {
  if (pointer != nullptr) live -= malloc_usable_size(pointer);
  std::free(pointer);
}

}  // namespace

void* operator new(std::size_t size) { return count(std::malloc(size)); }
void* operator new[](std::size_t size) { return count(std::malloc(size)); }
void operator delete(void* pointer) noexcept { release(pointer); }
void operator delete[](void* pointer) noexcept { release(pointer); }
void operator delete(void* pointer, std::size_t) noexcept { release(pointer); }
void operator delete[](void* pointer, std::size_t) noexcept { release(pointer); }

namespace saddle::battery {
namespace {

std::size_t measured(const auto& work) {
  const std::size_t before = live;
  peak = before;
  work();
  return peak - before;
}

TEST(Memory, StaysBelowThePrediction) {
  for (const BatteryCase& c : all_cases())
    for (const kernels::Implementation* implementation : kernels::generic_implementations()) {
      const Problem problem(c, DType::f64, Masking::padding);
      auto request = kernels::request_of(problem.call, primal::Outputs{});
      if (!implementation->refusals(request).empty()) continue;
      const Dims d = c.dims;
      Tensor y(DType::f64, {d.B, d.H, d.N, d.E}), dq(DType::f64, problem.call.q.shape),
          dk(DType::f64, problem.call.k.shape), dv(DType::f64, problem.call.v.shape);
      const primal::Outputs outputs{y.view(), {}, {}, {}};
      const std::size_t forward = measured([&] { implementation->forward(problem.call, outputs); });
      EXPECT_LE(static_cast<double>(forward), implementation->estimate(request).memory)
          << implementation->name() << " forward, " << test_name(c);
      request.backward = true;
      primal::Gradients gradients;
      gradients.dy = y.view();
      gradients.dq = dq.view();
      gradients.dk = dk.view();
      gradients.dv = dv.view();
      const std::size_t backward = measured([&] { implementation->backward(problem.call, gradients); });
      EXPECT_LE(static_cast<double>(backward), implementation->estimate(request).memory)
          << implementation->name() << " backward, " << test_name(c);
    }
}

}  // namespace
}  // namespace saddle::battery

#endif
