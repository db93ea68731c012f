// What a row must reach: a measured value and a bound for it.
#pragma once

#include <optional>
#include <string>

#include "row.hpp"

namespace saddle::bench {

struct Bar {
  enum class Kind {
    share,        // of a limit of the machine: `of` is "fma" or "amx"
    peer,         // time of the peer `of` divided by ours
    peer_memory,  // our memory divided by that of the peer `of`
    faster,       // time of `other` divided by ours
    slower,       // our time divided by that of `other`
    memory        // bytes beyond inputs, outputs and gradients
  };
  Kind kind = Kind::share;
  std::string of;
  Row other;
  std::optional<double> at_least, at_most, near;  // exactly one
  double within = 0;                              // with near: relative

  bool reached(double value) const;
};

// "68 % of FMA peak", "2.0x torch", "5.0x f32" (what the other row has that `row` has not); and a value of that kind.
std::string bar_text(const Bar& bar, const Row& row = {});
std::string value_text(const Bar& bar, double value);

}  // namespace saddle::bench
