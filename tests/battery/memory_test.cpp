// Point 12: what an implementation allocates stays below what it predicts.
#include <gtest/gtest.h>

#include "problem.hpp"
#include "tests/counted_allocations.hpp"

#if SADDLE_COUNTS_ALLOCATIONS

namespace saddle::battery {
namespace {

using namespace allocations;

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
