// Numbers too small to be normal, below 1e-38 in float, as zero. Sharp attention makes many of them; they are worth
// nothing in a sum, and cost a hundred cycles each.
#pragma once

#include "saddle/base/export.hpp"

namespace saddle {

// Until destroyed, on this thread and in the parallel loops that it starts: denormal operands and results count as 0.
class SADDLE_API FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  unsigned before_;
};

namespace detail {

// How this thread rounds and what it does with denormal numbers; 0 where there is nothing to choose.
unsigned float_mode();
void set_float_mode(unsigned mode);

}  // namespace detail

}  // namespace saddle
