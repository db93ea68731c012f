// How fast this machine multiplies, exponentiates and reads: what predicted times are made of. Measured and kept by
// `saddle bench --calibrate`; without that, typical values of the instruction set.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "saddle/base/cpu.hpp"
#include "saddle/base/dtype.hpp"
#include "saddle/base/export.hpp"

namespace saddle::kernels {

// One pass of one implementation, counted from its formulas.
struct Work {
  std::string_view implementation;
  DType dtype = DType::f32;
  bool backward = false;
  double multiply_adds = 0, exps = 0, bytes = 0;
  int threads = 0;  // that can take part; 0: threads()
};

struct Rates {
  // Of one thread, per second: multiply-adds, exponentials, bytes.
  double fma_f32 = 0, fma_f64 = 0;
  double amx_bf16 = 0;  // 0: there are no tiles
  double exp_f32 = 0, exp_f64 = 0;
  double bandwidth = 0;
  double bandwidth_all = 0;  // of all threads together
  // Share of these rates that an implementation reaches: "tiled f32 forward" -> 0.9.
  std::map<std::string, double> efficiency;
  bool calibrated = false;  // measured on this machine

  bool operator==(const Rates&) const = default;

  // Products and exponentials one after the other, but never faster than memory.
  SADDLE_API double seconds(const Work& work) const;
  // The measured share, else that of f32 forward, else a cautious one.
  SADDLE_API double efficiency_of(std::string_view implementation, DType dtype, bool backward) const;
};

// The key of `efficiency`.
SADDLE_API std::string efficiency_key(std::string_view implementation, DType dtype, bool backward);

// The rates for best_isa(): the calibration of this machine if there is a readable one, else built-in values.
SADDLE_API const Rates& rates();
SADDLE_API Rates default_rates(Isa isa);

// Where the calibration for an instruction set of this machine is kept: in $SADDLE_CACHE, $XDG_CACHE_HOME/saddle or
// ~/.cache/saddle. Empty when none of these is known.
SADDLE_API std::string rates_file(Isa isa);
// JSON, schema saddle.rates/1. parse_rates throws InvalidArgument that says what is wrong.
SADDLE_API std::string to_json(const Rates& rates);
SADDLE_API Rates parse_rates(std::string_view text);

}  // namespace saddle::kernels
