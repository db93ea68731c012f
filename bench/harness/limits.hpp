// What the machine itself can do, measured in the run that quotes shares of it.
#pragma once

#include <vector>

#include "saddle/base/cpu.hpp"

namespace saddle::bench {

// Of `threads` threads together, for the instruction set in use.
struct Limits {
  int threads = 1;
  double fma_f32 = 0, fma_f64 = 0;  // GFLOP/s, constant operands in registers
  double fma_avx2 = 0;              // the f32 rate of AVX2, for comparison; 0 where it is missing
  double amx_bf16 = 0;              // GFLOP/s on random tiles in registers; 0 without AMX
  double exp_f32 = 0, exp_f64 = 0;  // 1e9 exponentials per second, in cache
  double triad = 0, read = 0;       // GB/s from memory
};

struct LimitOptions {
  double seconds = 0.15;  // for each quantity
  bool memory = true;     // bandwidths take memory and time of their own
};

// For one entry of `threads` after the other.
std::vector<Limits> measure_limits(Isa isa, const std::vector<int>& threads, const LimitOptions& options = {});

// Keeps the better of two measurements: what disturbs a machine only ever lowers its limits.
void improve(std::vector<Limits>& limits, const std::vector<Limits>& again);

// Loops for one instruction set; each does its work `repeats` times and returns the operations done. A null function:
// not there.
struct LimitLoops {
  double (*fma_f32)(long repeats) = nullptr;  // multiplies and adds
  double (*fma_f64)(long repeats) = nullptr;
  double (*exp_f32)(long repeats) = nullptr;  // exponentials
  double (*exp_f64)(long repeats) = nullptr;
};
LimitLoops scalar_limits();
LimitLoops avx2_limits();
LimitLoops avx512_limits();
// Multiplies and adds of bf16 tiles with random values.
double amx_tile_products(long repeats);

}  // namespace saddle::bench
