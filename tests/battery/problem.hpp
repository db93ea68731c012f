// One seeded call with everything it needs, laid out in memory as a test wants it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cases.hpp"
#include "saddle/kernels/implementation.hpp"
#include "saddle/primal/call.hpp"

namespace saddle::battery {

enum class Layout { bhnd, bnhd, padded_rows };  // contiguous, tokens before heads, rows with gaps

// Memory for one tensor with guard words before, between and behind: written gaps are noticed.
class Guarded {
 public:
  Guarded() = default;
  Guarded(DType dtype, const Shape& shape, Layout layout);
  TensorView view() const { return view_; }
  bool guards_intact() const;
  Tensor dense() const;
  void fill(const Tensor& values);

 private:
  std::vector<std::byte> bytes_;
  std::vector<bool> used_;
  TensorView view_;
};

enum class Masking { none, padding, mask, empty_rows, everything };

struct Problem {
  primal::Call call;
  std::map<std::string, Guarded> memory;  // everything call points into

  Problem(const BatteryCase& battery_case, DType dtype, Masking masking, Layout layout = Layout::bhnd,
          std::uint64_t seed = 1);
  // The same values in double, each moved by at most the relative amount u.
  Problem nudged(double u, std::uint64_t seed = 2) const;

 private:
  Problem() = default;
};

// The implementation that judges all others.
const kernels::Implementation& the_reference();

// Everything a call computes, dense.
struct Results {
  std::map<std::string, Tensor> tensors;  // y, lse, dq, dk, dv, dskip, d<parameter>
  bool guards_intact = true;
};

// Outputs start as NaN. Weights and column sums are asked for where `optional` says so, log-sum-exp where it exists;
// `saved` hands y and log-sum-exp, in f32 at least, on to the backward pass.
Results run(const kernels::Implementation& implementation, const Problem& problem, Layout layout = Layout::bhnd,
            bool optional = false, bool saved = false);

// max|a-b| / max(1, max|b|), infinite where one is NaN and the other not.
double error(const Tensor& computed, const Tensor& expected);

// The one table of tolerances: an implementation against the double reference on the same rounded inputs.
double tolerance(DType dtype);

// How much each result of the reference moves when every input is moved by some roundings of the arithmetic: where that
// is more than the tolerance (large logits, nearly vanishing sums), no arithmetic of this precision can do better.
std::map<std::string, double> sensitivity(const Problem& problem, const Results& expected);

}  // namespace saddle::battery
