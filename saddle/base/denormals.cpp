#include "saddle/base/denormals.hpp"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace saddle {

#if defined(__SSE__)

unsigned detail::float_mode() { return _mm_getcsr(); }
void detail::set_float_mode(unsigned mode) {
  if (mode != _mm_getcsr()) _mm_setcsr(mode);
}

#else

unsigned detail::float_mode() { return 0; }
void detail::set_float_mode(unsigned) {}

#endif

namespace {

constexpr unsigned flush_results = 0x8000, denormals_are_zero = 0x0040;

}  // namespace

FlushDenormals::FlushDenormals() : before_(detail::float_mode()) {
  detail::set_float_mode(before_ | flush_results | denormals_are_zero);
}
FlushDenormals::~FlushDenormals() { detail::set_float_mode(before_); }

}  // namespace saddle
